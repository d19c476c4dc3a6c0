"""The example of deploy/ray has a valid command and the pinned version of Ray."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from octofold_client.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "deploy" / "ray"


def test_the_job_runs_a_command_that_octofold_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (the extra `ray`)")
    _, job = yaml.safe_load_all((EXAMPLE / "rayjob.yaml").read_text())
    program, *arguments = shlex.split(job["spec"]["entrypoint"].replace("/results", str(tmp_path)))
    assert program == "octofold"
    # Only the cluster is missing, which the command needs after its flags.
    arguments[arguments.index("--ray")] = "--ray=nowhere"
    assert main(arguments) == 1
    assert capsys.readouterr().err == (
        "octofold: --ray or RAY_ADDRESS must be HOST:PORT, such as 10.0.0.1:6379, or auto, got 'nowhere'\n"
    )


def test_job_and_image_have_the_ray_version_of_our_tests() -> None:
    pinned = re.search(r"^ray==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    _, job = yaml.safe_load_all((EXAMPLE / "rayjob.yaml").read_text())
    assert pinned is not None
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == pinned[1]
    assert f"FROM rayproject/ray:{pinned[1]}-" in (EXAMPLE / "Dockerfile").read_text()

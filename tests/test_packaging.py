"""Consistent pins of dependencies, and the commands that make would run to install packages."""

import re
import subprocess
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


def planned(*arguments: str) -> str:
    """Return the commands that make would run in a clone without an environment."""
    command = ["make", "--dry-run", "--always-make", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_can_plan_every_target() -> None:
    assert all(planned("VENV=absent", target) for target in TARGETS)


def test_cpu_and_gpu_have_separate_environments() -> None:
    for server, environment in (("server", ".venv"), ("server-gpu", ".venv-gpu")):
        plan = planned("serve", f"SERVER={server}")
        assert f"--editable '.[{server}]'" in plan
        assert f"{environment}/bin/octofold-serve" in plan
    assert "onnxruntime-gpu" not in names(EXTRAS["server"])
    assert "onnxruntime" not in names(EXTRAS["server-gpu"])


def names(requirements: list[str]) -> set[str]:
    return {Requirement(line).name for line in requirements}


def test_both_builds_of_onnxruntime_have_the_same_release() -> None:
    assert PINS["onnxruntime-gpu"] == PINS["onnxruntime"]
    (gpu,) = (Requirement(line) for line in EXTRAS["server-gpu"] if line.startswith("onnxruntime-gpu"))
    assert gpu.extras == {"cuda", "cudnn"}  # so the base image needs no CUDA
    assert PINS["onnxruntime-gpu"] in gpu.specifier
    assert "cuda" not in (ROOT / "Dockerfile").read_text().split("FROM")[0].partition("ARG BASE=")[2]

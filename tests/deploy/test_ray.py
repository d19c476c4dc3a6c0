"""The example of deploy/ray: a file that Ray accepts, and commands that exist."""

import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from octofold_client.cli import main

EXAMPLE = Path(__file__).parents[2] / "deploy" / "ray" / "cluster.yaml"

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra `ray`)")


def test_ray_accepts_the_cluster() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(yaml.safe_load(EXAMPLE.read_text()))
    validate_config(prepared)
    assert prepared["max_workers"] == 2


def test_the_command_for_ray_is_one_that_octofold_knows(capsys: pytest.CaptureFixture[str]) -> None:
    commands = yaml.safe_load(EXAMPLE.read_text())["head_start_ray_commands"]
    (command,) = (command for command in commands if "octofold ray serve" in command)
    words = shlex.split(command.partition(" < ")[0])
    arguments = words[words.index("ray") :]
    # Everything is right but the cluster, which the command asks for after its flags.
    assert main([*arguments[:2], "--cluster", "nowhere", *arguments[2:]]) == 1
    assert capsys.readouterr().err == (
        "octofold: a Ray cluster is HOST:PORT, such as 10.0.0.1:6379, or auto; got 'nowhere'\n"
    )


def test_the_replicas_of_the_example_have_keys_for_strangers() -> None:
    text = EXAMPLE.read_text()
    assert "--open" not in text
    assert "--tokens " in text
    assert "--tls-certificate " in text

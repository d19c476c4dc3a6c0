"""The flags of `octofold evaluate` that choose the servers, with a cluster and without one."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import octofold_client.ray
import pytest
from octofold_client.cli.evaluate import Options
from octofold_game.commands.command_line import Parser
from octofold_game.commands.options import read

REPLICAS = ["10.0.0.1:50051", "10.0.0.2:50051"]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with two replicas; the extra `ray` need not be installed."""
    cluster = SimpleNamespace(connected=lambda _address: nullcontext())
    placement = SimpleNamespace(addresses=lambda _name: REPLICAS)
    for name, module in (("cluster", cluster), ("placement", placement)):
        monkeypatch.setitem(sys.modules, f"octofold_client.ray.{name}", module)
        monkeypatch.setattr(octofold_client.ray, name, module, raising=False)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], ["127.0.0.1:50051"]),
        (["--target", "10.0.0.3:50051"], ["10.0.0.3:50051"]),
        (["--ray"], REPLICAS),
        (["--ray", "--target", "10.0.0.3:50051"], ["10.0.0.3:50051"]),
        (["--ray", "--target", "127.0.0.1:50051"], ["127.0.0.1:50051"]),
        (["--ray", "--player", "random"], []),
    ],
)
@pytest.mark.usefixtures("ray")
def test_servers_that_are_named_play_and_otherwise_the_replicas(
    flags: list[str], expected: list[str]
) -> None:
    with read(Options, Parser(), flags).cluster() as (targets, _):
        assert targets == expected

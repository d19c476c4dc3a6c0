"""Fixtures for several folders: a small model that plays legal moves, and a real server for it."""

import gc
import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support.forks import share_originals
from support.ports import reserved_port

# Test processes already use all cores. Torch's threads would spin while they wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Under nohup, or in the background of a shell, a process ignores these signals, and so do the programs that
# it starts. With a handler here, they do not ignore them.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# The duration of an example depends on the load of the machine, not on the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# pytest keeps what it collects until the end. Searching that for garbage takes seconds in each process.
gc.disable()

PublishModel = Callable[..., Path]

LONG_SECONDS = 900
"""A limit that tests marked as long exceed only if they hang."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    share_originals()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Tests of the whole product take longest, so they begin first, beside the other tests.
    items.sort(key=lambda item: item.path.parent.name not in ("tests", "examples"))
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def port() -> Iterator[int]:
    """A free port that is reserved for a server; nothing listens on it."""
    with reserved_port() as found:
        yield found


@pytest.fixture(scope="session")
def small_model(small_graphs: tuple[bytes, bytes]) -> bytes:
    """The ONNX file of an untrained network with one small layer, which plays legal moves fast and badly."""
    return small_graphs[0]


@pytest.fixture(scope="session")
def small_graphs() -> tuple[bytes, bytes]:
    """The file of `small_model`, and the file of its graph for only moves."""
    import torch
    from octofold_export.graph.early_exit import moves_graph
    from octofold_export.graph.folding import fold
    from octofold_export.graph.heads import head
    from octofold_export.handmade.layers import float32_network
    from octofold_export.handmade.weights import weights_of
    from octofold_export.sources.octofold_checkpoint import one_hot_description
    from octofold_training.networks.build import build

    torch.manual_seed(1)
    network = build({"kind": "cnn", "layers": 1, "channels": 4, "exponents": 16})
    policy = head(one_hot_description(16), float32_network(weights_of(network)))
    whole = fold(policy, "vote", 8)
    alone = moves_graph(policy, "vote", 8, whole)
    assert alone is not None
    return whole.SerializeToString(), alone.SerializeToString()


@pytest.fixture(scope="session")
def publish_model(small_model: bytes) -> PublishModel:
    """A function that publishes the small model as FOLDER/NAME/VERSION; keywords overwrite the card."""

    def publish(repository: Path, name: str = "small", version: int = 1, **card: Any) -> Path:
        folder = repository / name / str(version)
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(small_model)
        digest = hashlib.sha256(small_model).hexdigest()
        fields = {
            "format": 1,
            "name": name,
            "version": version,
            "architecture": {"kind": "cnn", "layers": 1, "channels": 4, "exponents": 16},
            "weights": 520,
            "decision_rule": "vote",
            "symmetries": 8,
            "largest_exponent": 15,
            "precisions": {"fp32": {"file": "model.onnx", "sha256": digest, "agreement": 1.0}},
            "strength": None,
            **card,
        }
        (folder / "card.json").write_text(json.dumps(fields))
        return folder

    return publish


@pytest.fixture(scope="session")
def repository(publish_model: PublishModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model repository that holds version 1 of the model `small`."""
    folder = tmp_path_factory.mktemp("models")
    publish_model(folder)
    return folder


@pytest.fixture(scope="session")
def target(repository: Path) -> Iterator[str]:
    """The address of a real server of `repository`, shared by all tests that do not change it."""
    from support.servers import served

    with served(repository) as server:
        yield server.target

"""The precision, lanes, threads and batch sizes of models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from octofold_game.contract.model import CARD_FORMAT, Card, GraphFile, Precision
from octofold_game.system.processors import usable_cores
from octofold_proto.errors import ModelError
from octofold_server.backends.backend import Backend, Layout
from octofold_server.config.options import Config
from octofold_server.models.layouts import choose_layout, choose_precision
from octofold_server.models.registry import Models
from support.fakes import FakeBackend
from support.servers import WriteVersion

CORES = usable_cores()


def card_offering(*precisions: Precision) -> Card:
    files = {name: GraphFile(file=name, sha256="0" * 64) for name in precisions}
    return Card(format=CARD_FORMAT, name="tiny", version=1, largest_exponent=15, precisions=files)


class TimedBackend(FakeBackend):
    """A backend that reports a given time per board."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def batch_seconds(self, boards: int) -> float:
        return self._seconds * boards


class TwoStageBackend(TimedBackend):
    """A backend that runs undecided boards a second time."""

    in_stages = True


@pytest.mark.parametrize(
    ("config", "device", "layout"),
    [
        (Config(), "cpu", Layout("cpu", 256, lanes=CORES, threads=1)),
        (Config(), "cuda", Layout("cuda", 1024, lanes=1)),
        (Config(processes=CORES), "cpu", Layout("cpu", 256, lanes=1)),
        (Config(processes=2), "cuda", Layout("cuda", 1024, lanes=1)),
        (Config(processes=2, lanes=5, threads=3), "cpu", Layout("cpu", 256, lanes=5, threads=3)),
        (Config(processes=2, threads=CORES), "cpu", Layout("cpu", 256, lanes=1, threads=CORES)),
        (Config(max_batch_size=4), "cpu", Layout("cpu", 4, lanes=CORES)),
    ],
)
def test_processes_share_the_cores_and_flags_apply_to_each(
    config: Config, device: str, layout: Layout
) -> None:
    assert choose_layout(config, device, "int8") == layout


def test_the_default_batch_size_is_the_first_that_is_worth_its_cost(
    tmp_path: Path, write_version: WriteVersion
) -> None:
    write_version("m", 1)

    def batch_size(
        milliseconds_a_board: float, lanes: int = 2, largest: int = 0, kind: type[TimedBackend] = TimedBackend
    ) -> int:
        def backends(_model: bytes, layout: Layout, *_files: object) -> Sequence[Backend]:
            return [kind(milliseconds_a_board / 1e3) for _ in range(layout.lanes)]

        config = Config(models=tmp_path / "models", device="cpu", lanes=lanes, max_batch_size=largest)
        models = Models(config, backends)
        models.start()
        models.close()
        return models.resolve("", "").batcher.max_batch_size

    assert [batch_size(milliseconds) for milliseconds in (9.0, 0.4, 0.2, 0.1)] == [8, 8, 16, 32]
    assert [batch_size(milliseconds) for milliseconds in (0.02, 0.01, 0.001)] == [64, 128, 256]
    assert [batch_size(milliseconds, kind=TwoStageBackend) for milliseconds in (9.0, 0.1, 0.001)] == [
        16,
        64,
        256,
    ]
    assert batch_size(0.4, lanes=1) == 32
    assert batch_size(0.4, largest=64) == 64


@pytest.mark.parametrize(
    ("offered", "wanted", "device", "avx2", "chosen"),
    [
        (("fp32", "int8", "fp16"), "auto", "cpu", True, "int8"),
        (("fp32", "int8", "fp16"), "auto", "cpu", False, "fp32"),
        (("fp32", "int8", "fp16"), "auto", "cuda", True, "fp16"),
        (("fp32",), "auto", "cpu", True, "fp32"),
        (("fp32", "int8"), "int8", "cpu", False, "int8"),
        (("fp32", "int8"), "fp32", "cpu", True, "fp32"),
    ],
)
def test_auto_chooses_the_fastest_precision_for_the_device(
    offered: tuple[Precision, ...], wanted: str, device: str, avx2: bool, chosen: str
) -> None:
    assert choose_precision(card_offering(*offered), wanted, device=device, avx2=avx2) == chosen


def test_a_precision_that_the_card_does_not_offer_is_an_error() -> None:
    with pytest.raises(
        ModelError, match=r"--precision must be one that the card lists \(fp32, int8\), got fp16"
    ):
        choose_precision(card_offering("fp32", "int8"), "fp16", device="cpu", avx2=True)

"""Measuring what is fastest, the file that keeps it, and the layout that a later start makes of it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.contract.model import TUNING_FILE
from octofold_game.system.processors import usable_cores
from octofold_proto.errors import ModelError
from octofold_server.backends.backend import EVERYTHING, Asked, Backend, Layout, Moves
from octofold_server.config.options import Config
from octofold_server.models.layouts import choose_layout, default_layout
from octofold_server.models.registry import Models
from octofold_server.models.tuning import candidates, tune
from octofold_server.models.tuning_file import device_name, read_tuning, write_tuning
from support.fakes import FakeBackend
from support.servers import WriteVersion

DIGEST = "ab" * 32
LAYOUT = Layout("cpu", 16, lanes=3, threads=2, spinning=True)


class BestAtSixteen(FakeBackend):
    """A board in a batch of 16 takes a twentieth of the time that it takes in any other, by its own clock."""

    now = 0.0

    def run(self, boards: NDArray[np.uint8], asked: Asked = EVERYTHING) -> Moves:
        BestAtSixteen.now += len(boards) * (1e-4 if len(boards) == 16 else 2e-3)
        return super().run(boards, asked)


class Taking(FakeBackend):
    """Says that a board takes so many seconds of a batch's time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def batch_seconds(self, boards: int) -> float:
        return self._seconds * boards


class InStages(Taking):
    """One whose second run takes what the first left undecided."""

    in_stages = True


def best_at_sixteen(_model: bytes, layout: Layout, *_files: object) -> Sequence[Backend]:
    return [BestAtSixteen() for _ in range(layout.lanes)]


def test_the_fastest_layout_is_kept_and_used_by_the_next_start(
    tmp_path: Path, write_version: WriteVersion
) -> None:
    folder = write_version("m", 1)
    config = Config(models=tmp_path / "models", device="cpu")
    tune(config, best_at_sixteen, seconds=1.0, clock=lambda: BestAtSixteen.now)
    made: list[Layout] = []

    def remember(model: bytes, layout: Layout, *files: object) -> Sequence[Backend]:
        made.append(layout)
        return best_at_sixteen(model, layout, *files)

    models = Models(config, remember)
    models.start()
    models.close()
    assert made[0].max_batch_size == 16
    assert made[0].lanes * made[0].threads == usable_cores()
    assert device_name("cpu") in json.loads((folder / TUNING_FILE).read_text())["devices"]


def test_flags_are_not_varied_and_win_over_what_was_measured(
    tmp_path: Path, write_version: WriteVersion
) -> None:
    write_version("m", 1)
    seen: set[Layout] = set()

    def remember(model: bytes, layout: Layout, *files: object) -> Sequence[Backend]:
        seen.add(layout)
        return best_at_sixteen(model, layout, *files)

    config = Config(models=tmp_path / "models", device="cpu", lanes=5, threads=1, max_batch_size=4)
    tune(config, remember, seconds=0.1, clock=lambda: BestAtSixteen.now)
    assert {(layout.lanes, layout.threads, layout.max_batch_size) for layout in seen} == {(5, 1, 4)}
    assert choose_layout(config, "cpu", "int8", LAYOUT).lanes == 5
    assert choose_layout(Config(), "cpu", "int8", LAYOUT) == LAYOUT


@pytest.mark.parametrize(
    ("lanes", "threads", "processes", "share"),
    [(8, 1, 2, (4, 1)), (3, 2, 2, (1, 2)), (1, 16, 2, (1, 8)), (2, 8, 4, (1, 4)), (1, 1, 4, (1, 1))],
)
def test_processes_share_the_lanes_that_were_measured(
    lanes: int, threads: int, processes: int, share: tuple[int, int]
) -> None:
    measured = replace(LAYOUT, lanes=lanes, threads=threads)
    layout = choose_layout(Config(processes=processes), "cpu", "int8", measured)
    assert (layout.lanes, layout.threads) == share


def test_each_process_has_as_many_lanes_as_the_flags_say_and_one_on_a_gpu() -> None:
    cores = usable_cores()
    assert choose_layout(Config(processes=cores), "cpu", "int8").lanes == 1
    assert choose_layout(Config(processes=2, lanes=5, threads=3), "cpu", "int8", LAYOUT).lanes == 5
    layout = choose_layout(Config(processes=2, threads=cores), "cpu", "int8")
    assert (layout.lanes, layout.threads) == (1, cores)
    assert choose_layout(Config(processes=2), "cuda", "fp16").lanes == 1


def test_without_a_result_each_core_has_a_lane_of_one_thread() -> None:
    assert choose_layout(Config(), "cpu", "int8") == default_layout("cpu")
    assert default_layout("cpu") == Layout("cpu", 256, lanes=usable_cores(), threads=1)
    assert choose_layout(Config(threads=usable_cores()), "cpu", "int8").lanes == 1
    assert default_layout("cuda").lanes == 1


def test_a_layout_tells_what_float16_asks_of_a_session() -> None:
    assert choose_layout(Config(), "cpu", "fp16") == replace(default_layout("cpu"), half=True)


def test_without_flags_and_tuning_the_first_batch_size_that_is_worth_its_cost_is_taken(
    tmp_path: Path, write_version: WriteVersion
) -> None:
    folder = write_version("m", 1)

    def batch_size(
        milliseconds_a_board: float, lanes: int = 2, largest: int = 0, kind: type[Taking] = Taking
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
    assert [batch_size(milliseconds, kind=InStages) for milliseconds in (9.0, 0.1, 0.001)] == [16, 64, 256]
    assert batch_size(0.4, lanes=1) == 32
    assert batch_size(0.4, largest=64) == 64
    digest = json.loads((folder / "card.json").read_text())["precisions"]["fp32"]["sha256"]
    write_tuning(folder, digest, Layout("cpu", 32, lanes=1), 1.0)
    assert batch_size(0.4) == 32


def test_the_plainest_candidate_is_the_default_layout() -> None:
    assert any(layout == default_layout("cpu") for layout in candidates("cpu"))
    assert {layout.threads * layout.lanes for layout in candidates("cpu")} == {usable_cores()}


def test_results_are_found_by_device_and_digest_and_stay_beside_each_other(tmp_path: Path) -> None:
    write_tuning(tmp_path, DIGEST, LAYOUT, 1234.5)
    write_tuning(tmp_path, "cd" * 32, default_layout("cpu"), 1.0)
    assert read_tuning(tmp_path, "cpu", DIGEST) == LAYOUT
    assert read_tuning(tmp_path, "cpu", "ef" * 32) is None
    content = json.loads((tmp_path / TUNING_FILE).read_text())
    content["devices"] = {"Another CPU, 64 cores": content["devices"][device_name("cpu")]}
    (tmp_path / TUNING_FILE).write_text(json.dumps(content))
    assert read_tuning(tmp_path, "cpu", DIGEST) is None
    assert [file.name for file in tmp_path.iterdir()] == [TUNING_FILE]


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"format": 1, "dev',
        '{"format": 2, "devices": {}}',
        "[]",
        '{"format": 1, "devices": {"CPU": {"x": {"lanes": 0}}}}',
        "\udcff",
    ],
)
def test_a_damaged_or_foreign_file_is_ignored_with_a_warning_and_replaced_by_the_next_result(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / TUNING_FILE
    file.write_bytes(content.encode(errors="surrogateescape"))
    with caplog.at_level(logging.WARNING):
        assert read_tuning(tmp_path, "cpu", DIGEST) is None
    assert str(file) in caplog.text
    write_tuning(tmp_path, DIGEST, LAYOUT, 1.0)
    assert read_tuning(tmp_path, "cpu", DIGEST) == LAYOUT


def test_no_models_is_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=str(tmp_path)):
        tune(Config(models=tmp_path, device="cpu"))


def test_the_command_measures_instead_of_serving(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "octofold_server.cli", "--tune", "--models", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    assert f"no models in {tmp_path}" in run.stderr


def test_the_command_names_the_model_that_it_cannot_measure(
    tmp_path: Path, write_version: WriteVersion
) -> None:
    write_version("m", 3)
    command = [sys.executable, "-m", "octofold_server.cli", "--tune", "--models", str(tmp_path / "models")]
    command += ["--device", "cpu", "--precision", "fp16"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    assert "octofold-serve: m/3: the card offers fp32, not fp16" in run.stderr


def test_a_full_disk_is_one_line_and_the_results_of_before_stay(
    tmp_path: Path, write_version: WriteVersion
) -> None:
    folder = write_version("m", 3)
    write_tuning(folder, DIGEST, LAYOUT, 1.0)
    before = (folder / TUNING_FILE).read_bytes()
    measure = "import resource, sys; from pathlib import Path; "
    measure += "from octofold_server.config.options import Config; "
    measure += "from octofold_server.models.tuning import tune; "
    measure += "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
    measure += "tune(Config(models=Path(sys.argv[1]), device='cpu'), seconds=0.01)"
    command = [sys.executable, "-c", measure, str(tmp_path / "models")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    last = run.stderr.splitlines()[-1]
    assert last.startswith("octofold_proto.errors.ModelError: m/3: [Errno 27] File too large: ")
    assert last.endswith(f"'{folder / TUNING_FILE}'")
    assert (folder / TUNING_FILE).read_bytes() == before
    assert [file.name for file in folder.glob("*.partial")] == []

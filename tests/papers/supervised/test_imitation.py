"""Supervised training from play logs: it learns what the moves show, in one process as in two."""

import csv
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from octofold_game.episodes import Episodes
from octofold_game.play_logs.moves import LoggedMoves
from octofold_game.play_logs.text import log_writer
from octofold_game.rules import afterstates
from octofold_papers import cli
from octofold_papers.supervised import imitation
from octofold_papers.supervised.imitation import Imitation, ImitationOptions
from octofold_papers.supervised.shards import ShuffledMoves, convert
from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.networks.build import build
from octofold_training.run.loop import resume, save_state, train
from octofold_training.run.processes import ONE_PROCESS, Processes
from support.training import Exchange, ThreadOfMany, finished, octofold_papers
from support.waiting import wait_for

SMALL = {"kind": "mlp", "dense": [32], "exponents": 16}
RESIDUAL = {"kind": "residual", "channels": 4, "blocks": 1, "head_blocks": 1, "head_width": 8}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The moves of a player that prefers down, then right, left and up: something simple to learn."""
    episodes, boards, made = Episodes(3, range(60)), [], []
    while len(episodes.running):
        legal = afterstates(episodes.boards)[2]
        choices = np.where(legal, np.array([1, 3, 4, 2]), 0).argmax(axis=1).astype(np.uint8)
        boards.append(episodes.boards)
        made.append(choices)
        episodes.step(choices)
    all_boards, all_made = np.concatenate(boards), np.concatenate(made)
    after = afterstates(all_boards)[0][np.arange(len(all_made)), all_made]
    path = tmp_path_factory.mktemp("logs") / "moves.txt.gz"
    with log_writer(path) as append:
        append(LoggedMoves(all_boards, all_made, (after == 0).argmax(axis=1).astype(np.uint8)))
    return path


@pytest.fixture(scope="module")
def folder(log: Path) -> Path:
    convert([log], log.parent / "converted", shards=8)
    return log.parent / "converted"


@pytest.fixture
def moves(folder: Path) -> ShuffledMoves:
    return ShuffledMoves(folder, seed=1)


def run_of(
    moves: ShuffledMoves,
    architecture: dict[str, Any] = SMALL,
    processes: Processes = ONE_PROCESS,
    **changes: Any,
) -> Imitation:
    options: dict[str, Any] = {"batch_size": 100, "learning_rate": 3e-3, "epochs": 2.0}
    return Imitation(ImitationOptions(**(options | changes)), architecture, moves, processes=processes)


def accuracy(network: torch.nn.Module, moves: ShuffledMoves) -> float:
    """The share of all moves that the network makes, without legality's help."""
    right = 0
    planes = torch.eye(16)
    for batch in moves.batches(0, 1000):
        one_hot = planes[torch.from_numpy(batch.boards).long()].view(-1, 4, 4, 16).permute(0, 3, 1, 2)
        with torch.no_grad():
            right += int((network(one_hot).argmax(dim=1).numpy() == batch.moves).sum())
    return right / len(moves)


def test_the_network_learns_the_moves(moves: ShuffledMoves) -> None:
    """Always down is right in less than 70%. Networks of 20 seeds were right in 85.7% of the moves, with a
    standard deviation of 1.4%: one in a million fails by chance.
    """
    counts = np.zeros(4)
    for batch in moves.batches(0, 1000):
        counts += np.bincount(batch.moves, minlength=4)
    assert counts.max() / counts.sum() < 0.7
    run = run_of(moves, epochs=6.0)
    while run.positions < run.options.positions:
        progress = run.learn()
    assert progress.epoch == 6.0
    assert accuracy(run.averaged.module.eval(), moves) > 0.78


def test_boards_are_learned_as_they_were_played(moves: ShuffledMoves) -> None:
    """The update of the first batch is that of plain PyTorch on the boards of the log, unturned."""
    run = run_of(moves)
    torch.manual_seed(run.options.seed)
    network = build(SMALL)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    batch = next(moves.batches(0, 100))
    one_hot = torch.eye(16)[torch.from_numpy(batch.boards).long()].view(-1, 4, 4, 16).permute(0, 3, 1, 2)
    loss = torch.nn.functional.cross_entropy(network(one_hot), torch.from_numpy(batch.moves).long())
    loss.backward()
    optimizer.step()
    progress = run.learn(updates=1)
    assert progress.loss == pytest.approx(loss.item(), abs=1e-4)
    for mine, theirs in zip(run.network.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_imitation_that_was_stopped_goes_on_as_if_it_had_not_stopped(
    moves: ShuffledMoves, tmp_path: Path
) -> None:
    whole = run_of(moves, averaged=500.0)
    for _ in range(6):
        whole.learn(updates=7)
    first = run_of(moves, averaged=500.0)
    for _ in range(3):
        first.learn(updates=7)
    save_state(first, tmp_path)
    second = run_of(moves, averaged=500.0)
    resume(second, tmp_path)
    for _ in range(3):
        second.learn(updates=7)
    assert second.positions == whole.positions
    for mine, theirs in zip(second.averaged.parameters(), whole.averaged.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_another_network_or_other_moves_are_refused(moves: ShuffledMoves, log: Path, tmp_path: Path) -> None:
    save_state(run_of(moves), tmp_path)
    with pytest.raises(TrainingError, match="but the recipe has"):
        resume(run_of(moves, {**SMALL, "dense": [33]}), tmp_path)
    convert([log, log], tmp_path / "twice")
    with pytest.raises(TrainingError, match="was learning from"):
        resume(run_of(ShuffledMoves(tmp_path / "twice")), tmp_path)
    with pytest.raises(TrainingError, match="answers with values"):
        run_of(moves, {"kind": "q_network", "form": "simple", "value_scale": 1})
    with pytest.raises(TrainingError, match="networks with one output"):
        run_of(moves, RESIDUAL, micro_batch_size=50)


def test_the_learning_rate_falls_in_the_last_part_of_a_run(moves: ShuffledMoves) -> None:
    run = run_of(moves, epochs=0.0, positions=1000.0, cool_down=0.4, learning_rate=1e-3)
    for positions, rate in ((600, 1e-3), (800, 5e-4), (1000, 0.0)):
        run.positions = positions
        assert run.learning_rate() == pytest.approx(rate)


def test_a_run_with_nothing_to_learn_from_is_refused(moves: ShuffledMoves) -> None:
    with pytest.raises(TrainingError, match="epochs is 0 and positions is 0"):
        run_of(moves, epochs=0.0, positions=0.0)


def test_a_last_batch_too_small_for_batch_norm_is_refused_at_the_start(moves: ShuffledMoves) -> None:
    size = len(moves) - 1  # which leaves one move for the last batch
    with pytest.raises(TrainingError, match=f"of {len(moves):,} moves leaves 1 for the last of an epoch"):
        Imitation(ImitationOptions(epochs=1.0, batch_size=size), RESIDUAL, moves)
    Imitation(ImitationOptions(epochs=1.0, batch_size=size), SMALL, moves)


def test_a_last_batch_too_small_is_refused_where_a_run_goes_on_too(
    moves: ShuffledMoves, tmp_path: Path
) -> None:
    size = len(moves) // 2
    run = run_of(moves, RESIDUAL, batch_size=size)
    run.positions = size
    save_state(run, tmp_path)
    larger = run_of(moves, RESIDUAL, batch_size=len(moves) - size - 1)
    with pytest.raises(TrainingError, match=f"of {len(moves) - size:,} moves leaves 1 for the last"):
        resume(larger, tmp_path)


def test_a_process_without_a_part_of_a_batch_gets_no_answers() -> None:
    pairs = {"kind": "pairs", "patterns": ["lines"], "features": 4, "dense": [8], "exponents": 16}
    empty = torch.zeros(0, 16, 4, 4)
    assert build(pairs)(empty).shape == (0, 4)


def test_networks_with_two_heads_and_with_micro_batches_learn(moves: ShuffledMoves) -> None:
    for run in (run_of(moves, RESIDUAL), run_of(moves, micro_batch_size=30, bfloat16=True)):
        first, *_, last = (run.learn(5).loss for _ in range(12))
        assert first is not None
        assert last is not None
        assert last < first


def test_curves_are_written_by_position_and_by_epoch(moves: ShuffledMoves, tmp_path: Path) -> None:
    train(run_of(moves), tmp_path / "run", tmp_path / "net", imitation.CURVES, lambda _: None)
    reports = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    with (tmp_path / "run" / "curves.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == [report["loss"] for report in reports]
    with (tmp_path / "run" / "epochs.csv").open(newline="") as file:
        epochs = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in epochs] == [1, 2]
    assert [int(row["positions"]) for row in epochs] == [len(moves), 2 * len(moves)]
    of_first = [report for report in reports if report["epoch"] <= 1]
    sizes = np.diff([0, *(report["positions"] for report in of_first)])
    average = np.average([report["loss"] for report in of_first], weights=sizes)
    assert float(epochs[0]["loss"]) == pytest.approx(average, abs=1e-5)
    assert float(epochs[1]["accuracy"]) > float(epochs[0]["accuracy"])


def test_two_processes_learn_what_one_learns(moves: ShuffledMoves, folder: Path) -> None:
    alone, exchange = run_of(moves), Exchange(2)

    def learned(rank: int) -> Imitation:
        # Threads share the random numbers that the first weights come from, unlike processes.
        run = run_of(ShuffledMoves(folder, seed=1), processes=ThreadOfMany(rank, exchange))
        run.network.load_state_dict(start)
        run.learn(updates=20)
        return run

    start = {name: weights.clone() for name, weights in alone.network.state_dict().items()}
    alone.learn(updates=20)
    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(learned, range(2)))
    for run in runs:
        assert run.positions == alone.positions > 0
        for mine, theirs in zip(run.network.parameters(), alone.network.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


# The command, as it is typed

RECIPE = """
[network]
kind = "mlp"
dense = [32]
exponents = 16

[imitation]
epochs = {epochs}
batch_size = 100
"""


@pytest.mark.long  # torchrun and its processes each import torch
def test_torchrun_trains_the_network_that_one_process_trains(folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE.format(epochs=0.5))
    command = ["imitation", str(recipe), "--moves", str(folder), "--device", "cpu"]
    here, there = tmp_path / "one process", tmp_path / "two processes"
    assert cli.main([*command, "--state", f"{here}/state", "--checkpoint", f"{here}/net"]) == 0
    of_two = (*command, "--state", there / "state", "--checkpoint", there / "net")
    finished(octofold_papers(*of_two, folder=tmp_path, processes=2))
    one, two = (checkpoints.load(place / "net") for place in (here, there))
    assert one.training["positions"] == two.training["positions"] > 0
    for mine, theirs in zip(one.network.parameters(), two.network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_ctrl_c_keeps_the_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = endless(folder, tmp_path)

    def interrupt() -> None:
        try:
            wait_for(lambda: has_begun(tmp_path))
        finally:  # or it would train on after a failed wait
            os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor(1) as thread:
        interrupted = thread.submit(interrupt)
        assert cli.main(command) == 130
        interrupted.result()
    require_kept(folder, tmp_path, capsys.readouterr().err)


@pytest.mark.long  # torchrun and its processes each import torch
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_keeps_the_run_of_two_processes(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = octofold_papers(*endless(folder, tmp_path), folder=tmp_path, processes=2)
    wait_for(lambda: has_begun(tmp_path), process=process)
    process.send_signal(number)
    require_kept(folder, tmp_path, process.communicate()[1])


def endless(moves: Path, folder: Path) -> list[str]:
    """A command for this folder, and its recipe there."""
    (folder / "small.toml").write_text(RECIPE.format(epochs=100_000))
    return ["imitation", "small.toml", "--moves", str(moves), "--device", "cpu"]


def has_begun(folder: Path) -> bool:
    history = folder / "runs" / "small" / "history.jsonl"
    return history.exists() and history.stat().st_size > 0


def require_kept(moves: Path, folder: Path, errors: str) -> None:
    assert "interrupted; the same command continues in runs/small" in errors
    checkpoint = checkpoints.load(folder / "checkpoints" / "small")
    run = run_of(ShuffledMoves(moves), epochs=100_000.0)
    resume(run, folder / "runs" / "small")
    assert run.positions == checkpoint.training["positions"] > 0

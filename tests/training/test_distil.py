"""Distillation: the student learns, the pool stays legal, a run resumes, and a broken one stops."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from octofold_game import rules
from octofold_game.bitboards import unpack
from octofold_players.ntuple import NTupleNetwork
from octofold_training import checkpoints
from octofold_training.distil import Distillation, DistilOptions, DistilProgress, TrainingError, train
from octofold_training.ntuple_td import NTupleLearner, NTupleOptions
from octofold_training.positions import PositionPool
from torch import nn

ARCHITECTURE = {"kind": "cnn", "layers": 2, "channels": 16, "exponents": 16}
TUPLES = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 4, 5), (5, 6, 9, 10))


@pytest.fixture(scope="module")
def teacher() -> NTupleNetwork:
    learner = NTupleLearner(NTupleOptions(tuples=TUPLES, threads=1))
    learner.learn(200_000)
    return learner.network


def _options(**changes: object) -> DistilOptions:
    return DistilOptions(**({"batch_size": 64, "slices": 2, "warm_up": 64.0} | changes))


def test_the_student_comes_to_agree_with_the_teacher(teacher: NTupleNetwork) -> None:
    options = _options(temperature=30.0, learning_rate=5e-3)
    run = Distillation(options, ARCHITECTURE, teacher)
    run.pool.warm_up(teacher)
    first = run.learn(40)
    run.learn(1200)
    last = run.learn(40)
    assert last.accuracy > first.accuracy + 0.05
    assert last.loss < first.loss


def test_every_position_of_the_pool_can_be_played_on(teacher: NTupleNetwork) -> None:
    pool = PositionPool(batch_size=32, slices=2, seed=3)
    pool.warm_up(teacher)
    ended = 0
    for _ in range(400):
        boards = pool.batch()
        legal = rules.legal_moves(unpack(boards))
        assert legal.any(axis=1).all()
        values = teacher.action_values(boards)
        worst = np.where(legal, values, np.inf).argmin(axis=1)
        ended += pool.advance(values.argmax(axis=1).astype(np.int8), worst.astype(np.int8))
    assert ended > 0


def test_each_half_of_a_batch_follows_its_owner(teacher: NTupleNetwork) -> None:
    pool = PositionPool(batch_size=8, slices=1, seed=3)
    pool.warm_up(teacher)
    before = unpack(pool.batch())
    legal = rules.legal_moves(before)
    first, last = legal.argmax(axis=1), 3 - legal[:, ::-1].argmax(axis=1)
    pool.advance(first.astype(np.int8), last.astype(np.int8))
    expected, _ = rules.slide(before, np.concatenate([first[:4], last[4:]]))
    spawned = (unpack(pool.batch()) != expected).sum(axis=1)
    assert (spawned == 1).all()


def test_a_run_resumes_with_its_optimiser_and_its_games(teacher: NTupleNetwork, tmp_path: Path) -> None:
    options = _options(positions=5_000.0)
    run = train(options, ARCHITECTURE, teacher, tmp_path / "run", tmp_path / "net", lambda _: None)
    resumed = Distillation(options, ARCHITECTURE, teacher)
    resumed.resume(tmp_path / "run")
    assert (resumed.positions, resumed.seconds) == (run.positions, run.seconds)
    np.testing.assert_array_equal(resumed.pool.boards, run.pool.boards)
    for name, value in resumed.student.state_dict().items():
        assert torch.equal(value, run.student.state_dict()[name])
    history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert history[-1]["positions"] == run.positions
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")
    saved = checkpoints.load(tmp_path / "net")
    assert saved.training["positions"] == run.positions
    for name, value in saved.network.state_dict().items():
        assert torch.equal(value, resumed.averaged.module.state_dict()[name])


@pytest.mark.parametrize("content", [b"", b"garbage", "truncated", "foreign"])
def test_a_damaged_state_is_named(teacher: NTupleNetwork, tmp_path: Path, content: bytes | str) -> None:
    run = Distillation(_options(), ARCHITECTURE, teacher)
    run.save(tmp_path)
    state = tmp_path / "state.pt"
    if content == "truncated":
        state.write_bytes(state.read_bytes()[:5000])
    elif content == "foreign":
        torch.save({"weights": torch.zeros(3)}, state)
    else:
        state.write_bytes(content)
    with pytest.raises(TrainingError, match=r"state\.pt: damaged"):
        run.resume(tmp_path)


def test_a_history_cut_off_in_a_line_does_not_stop_a_run(teacher: NTupleNetwork, tmp_path: Path) -> None:
    run, net = tmp_path / "run", tmp_path / "net"
    train(_options(positions=1_280.0), ARCHITECTURE, teacher, run, net, lambda _: None)
    history = run / "history.jsonl"
    whole = history.read_text()
    history.write_text(whole + '{"seconds": 12')
    train(_options(positions=1_280.0), ARCHITECTURE, teacher, run, net, lambda _: None)
    assert history.read_text() == whole


class _EquivariantStudent(nn.Module):
    """Prefers the side with the larger exponents: turning the board turns its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, one_hot: torch.Tensor) -> torch.Tensor:
        exponents = (one_hot.float() * torch.arange(16).view(16, 1, 1)).sum(dim=1)  # [N, 4, 4]
        sides = [exponents[:, 0], exponents[:, :, 3], exponents[:, 3], exponents[:, :, 0]]
        return torch.stack([side.sum(dim=1) for side in sides], dim=1) * self.scale


def test_the_symmetry_that_a_position_is_seen_under_changes_nothing_of_its_target(
    teacher: NTupleNetwork,
) -> None:
    outcomes = []
    for seed in (1, 2):
        run = Distillation(_options(), ARCHITECTURE, teacher)
        run.pool.warm_up(teacher)
        run.student = _EquivariantStudent()
        run._symmetries = np.random.default_rng(seed)
        progress = run.learn(5)
        outcomes.append((progress.loss, progress.accuracy, run.pool.boards.tolist()))
    assert outcomes[0] == outcomes[1]


def test_another_runs_state_is_refused(teacher: NTupleNetwork, tmp_path: Path) -> None:
    Distillation(_options(), ARCHITECTURE, teacher).save(tmp_path)
    with pytest.raises(TrainingError, match="asked for"):
        Distillation(_options(), ARCHITECTURE | {"channels": 17}, teacher).resume(tmp_path)
    with pytest.raises(TrainingError, match="128 games"):
        Distillation(_options(slices=3), ARCHITECTURE, teacher).resume(tmp_path)


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_state(
    teacher: NTupleNetwork, tmp_path: Path
) -> None:
    run, net = tmp_path / "run", tmp_path / "net"
    good = Distillation(_options(), ARCHITECTURE, teacher)
    good.pool.warm_up(teacher)
    good.save(run)
    before = (run / "state.pt").read_bytes()
    with pytest.raises(TrainingError, match="loss became"):
        train(_options(learning_rate=1e30), ARCHITECTURE, teacher, run, net, lambda _: None)
    assert (run / "state.pt").read_bytes() == before
    assert not net.exists()


def test_the_learning_rate_rises_stays_and_falls_to_nothing(teacher: NTupleNetwork) -> None:
    options = _options(positions=10_000.0, warm_up=640.0, cool_down=0.4, learning_rate=1.0)
    run = Distillation(options, ARCHITECTURE, teacher)
    rates = []
    for positions in (0, 576, 3_000, 6_000, 8_000, 10_000):
        run.positions = positions
        rates.append(round(run.learning_rate(), 9))
    assert rates == [0.1, 1.0, 1.0, 1.0, 0.5, 0.0]


def test_the_expected_regret_is_what_a_policy_loses_by_its_worse_moves(teacher: NTupleNetwork) -> None:
    run = Distillation(_options(temperature=100.0, regret_weight=2.0), ARCHITECTURE, teacher)
    plain = Distillation(_options(temperature=100.0), ARCHITECTURE, teacher)
    values = torch.tensor([[1000.0, 800.0, -torch.inf, -9e9]])
    logits = torch.tensor([[0.0, 0.0, 50.0, -50.0]])  # an illegal move's logit counts for nothing
    difference = run._loss(logits, values) - plain._loss(logits, values)
    assert difference.item() == pytest.approx(2.0 * (200 / 2) / 100)


def test_a_run_stops_after_its_time_and_goes_on_later(teacher: NTupleNetwork, tmp_path: Path) -> None:
    run, net = tmp_path / "run", tmp_path / "net"
    stopped = train(_options(), ARCHITECTURE, teacher, run, net, lambda _: None, minutes=1e-4)
    went_on = train(_options(), ARCHITECTURE, teacher, run, net, lambda _: None, minutes=1e-4)
    assert 0 < stopped.positions < went_on.positions < _options().positions


def test_ctrl_c_saves_the_state_and_the_checkpoint(teacher: NTupleNetwork, tmp_path: Path) -> None:
    def interrupt(_: DistilProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(_options(), ARCHITECTURE, teacher, tmp_path / "run", tmp_path / "net", interrupt)
    assert (tmp_path / "run" / "state.pt").exists()
    assert (tmp_path / "net" / "checkpoint.json").exists()


def test_a_full_disk_ends_the_run_in_one_line_and_the_last_state_stays(
    teacher: NTupleNetwork, tmp_path: Path
) -> None:
    recipe, run, net = tmp_path / "tiny.toml", tmp_path / "run", tmp_path / "net"
    recipe.write_text(
        '[network]\nkind = "cnn"\nlayers = 2\nchannels = 16\nexponents = 16\n'
        "[distil]\nbatch_size = 64\nslices = 2\npositions = 1e9\n"
    )
    teacher.save(tmp_path / "teacher")
    train(_options(positions=1_280.0), ARCHITECTURE, teacher, run, net, lambda _: None)
    before = (run / "state.pt").read_bytes()
    program = (sys.executable, "-m", "octofold_training.commands")
    folders = ("--teacher", str(tmp_path / "teacher"), "--state", str(run), "--checkpoint", str(net))
    ended = subprocess.run(
        [*program, "student", str(recipe), "--minutes", "0.001", *folders],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "octofold-train: " in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr
    assert (run / "state.pt").read_bytes() == before
    assert not list(run.glob("*.partial"))
    checkpoints.load(net)

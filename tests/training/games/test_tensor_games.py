"""Teacher and games on a device behave like those on the CPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from octofold_game.bitboards import pack
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTupleSearch
from octofold_training.games.tensor_environment import MoveTable
from octofold_training.games.tensor_pool import TensorPool
from octofold_training.games.tensor_teacher import TensorTeacher
from torch._subclasses.fake_tensor import FakeTensorMode

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def table() -> MoveTable:
    return MoveTable(CPU)


def _boards(count: int) -> np.ndarray:
    """Return boards of all kinds, some with two adjacent tiles of 32768."""
    random = np.random.default_rng(3)
    boards = random.integers(0, 16, (count, 16)) * (random.random((count, 16)) < 0.7)
    boards[::5, :2] = 15
    return boards.astype(np.uint8)


@pytest.mark.parametrize("stages", [(), (14,), (13, 11, 6)])
def test_moves_have_the_values_of_the_network(teacher: NTupleNetwork, stages: tuple[int, ...]) -> None:
    random = np.random.default_rng(4)
    values = random.normal(0, 1000, teacher.size(teacher.tuples) * (len(stages) + 1)).astype(np.float32)
    network = replace(teacher, values=values, stages=stages)
    boards = _boards(1000)
    found = TensorTeacher(network, CPU).action_values(torch.from_numpy(boards))
    np.testing.assert_allclose(found.numpy(), network.action_values(pack(boards)), rtol=1e-4, atol=0.1)


def test_moves_two_moves_deep_have_the_values_of_the_search(teacher: NTupleNetwork) -> None:
    boards = _boards(60)
    found = TensorTeacher(teacher, CPU).action_values(torch.from_numpy(boards), depth=2)
    np.testing.assert_allclose(found, NTupleSearch(teacher, 2).values(pack(boards)), rtol=1e-4, atol=0.1)


def test_tuples_of_six_cells_are_numbered_exactly() -> None:
    cells = (1, 5, 6, 9, 10, 14)
    values = np.arange(16**6, dtype=np.float32) % 4093
    network = NTupleNetwork((cells,), values)
    boards = _boards(500)
    found = TensorTeacher(network, CPU).action_values(torch.from_numpy(boards))
    np.testing.assert_array_equal(found.numpy(), network.action_values(pack(boards)))


def test_the_first_half_follows_the_teacher_and_the_second_the_student(table: MoveTable) -> None:
    pool = TensorPool(64, table, torch.Generator().manual_seed(1))
    boards, legal = pool.boards, table.legal(pool.boards)
    first, last = legal.int().argmax(dim=1), 3 - legal.flip(1).int().argmax(dim=1)
    teachers, students = table.slide(boards, first)[0][:32], table.slide(boards, last)[0][32:]
    pool.advance(first, last)
    spawned = pool.boards - torch.cat([teachers, students])
    assert ((spawned > 0).sum(dim=1) == 1).all()  # no game ends with its first move


def test_games_of_the_student_start_from_boards_that_the_teacher_reached(
    teacher: NTupleNetwork, table: MoveTable
) -> None:
    pool = TensorPool(256, table, torch.Generator().manual_seed(1))
    pool.warm_up(TensorTeacher(teacher, CPU), 384)
    tiles = (pool.boards[128:].int().exp2() * (pool.boards[128:] > 0)).sum(dim=1)
    begun = (tiles <= 8).float().mean().item()  # a quarter, and a third of the rest, from the first snapshot
    assert begun == pytest.approx(0.5, abs=0.15)
    assert tiles.max() > 300  # from the last


def test_the_first_games_have_different_lengths(teacher: NTupleNetwork, table: MoveTable) -> None:
    """In lockstep, the sums of tiles after 60 moves would be 132 with a standard deviation of 5."""
    pool = TensorPool(512, table, torch.Generator().manual_seed(1))
    pool.warm_up(TensorTeacher(teacher, CPU), 60)
    boards = pool.boards[:256]
    sums = (boards.int().exp2() * (boards > 0)).sum(dim=1)
    counts = torch.histc(sums, bins=4, min=0, max=140)
    assert counts.min() > 40  # of 64; three standard deviations less


def test_a_restored_pool_continues_as_if_not_interrupted(teacher: NTupleNetwork, table: MoveTable) -> None:
    generator = torch.Generator().manual_seed(1)
    pool, later = TensorPool(64, table, generator), TensorPool(64, table, torch.Generator())
    values = TensorTeacher(teacher, CPU)
    pool.warm_up(values, 200)
    later.restore(pool.state())
    with pytest.raises(ValueError, match="must have 16 games, got 32"):
        TensorPool(32, table, generator).restore(pool.state())
    outcomes = []
    for each in (pool, later):
        each._teachers.generator = each._students.generator = torch.Generator().manual_seed(2)
        for _ in range(100):
            boards, legal = each.boards, table.legal(each.boards)
            moves = values.action_values(boards).argmax(dim=1)
            each.advance(moves, legal.int().argmax(dim=1))
        outcomes.append(each.boards)
    assert torch.equal(*outcomes)


def test_no_step_waits_for_the_device(table: MoveTable) -> None:
    """Meta tensors have no data, so a step that reads a value would fail."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        pool = TensorPool(64, table, torch.Generator())
        legal = table.legal(pool.boards)
        moves = legal.int().argmax(dim=1)
        pool.advance(moves, moves)

"""Rebuilds the published tables: trains every network on the same positions and lets each network play.

The work has stages: all networks learn from a million positions (fewer in a small table) and play, then from
twice as many, and so on. As published, the learning rate of Adam never changes. So each stage continues the
one before, and the scores of the stages form the curve of score against positions. A later call may have more
positions. After an interruption, the states of the networks and all finished games are kept.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from octofold_game.system.files import appending, write_text
from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.games.playing import NetworkPlayer, play
from octofold_training.games.tensor_teacher import TensorTeacher
from octofold_training.networks.architectures import Architecture
from octofold_training.networks.build import build, interface_of
from octofold_training.networks.encoding import fastest_type
from octofold_training.networks.interfaces import BoardEncoder
from octofold_training.run import loop
from torch.utils.flop_counter import FlopCounterMode

from octofold_papers.supervised import imitation
from octofold_papers.supervised.device_imitation import DeviceImitation, DeviceImitationOptions
from octofold_papers.supervised.imitation import Imitation, ImitationOptions, PolicyProgress
from octofold_papers.supervised.published import ROWS, PublishedRow
from octofold_papers.supervised.results import Result, read_games, result_of
from octofold_papers.supervised.shards import ShuffledMoves

FIRST_STAGE = 1_000_000
"""Positions of the first stage, except in small tables. `stages` gives the further stages."""
_LEAST_STAGES = 4
VIEWS = (8, 1)
_SEED_OF_GAMES = 1
_TRAINING_COST = 3
"""Cost of an update per position, relative to the cost of a move in a game."""
_GAME_MOVES = 300
"""Number of moves in a game of a network that has learned little."""
_BATCH = 1000
"""Positions per update, as published."""


@dataclass(frozen=True)
class TableOptions:
    """The size of the rebuilt tables."""

    positions: int
    """Number of positions that each network learns from."""
    games: int
    """Number of games that each network plays on one view, and again on eight."""
    rows: tuple[PublishedRow, ...]


class OutOfTime(Exception):
    """The time limit of `Table.run` has been reached; another call continues."""


class Table:
    """The work that rebuilds the published tables: training and games. All results are in one folder."""

    def __init__(
        self,
        options: TableOptions,
        moves: ShuffledMoves | TensorTeacher,
        folder: Path,
        device: torch.device,
        show: Callable[[str, float], None],
    ) -> None:
        """Prepare the work.

        Args:
            options: the size of the tables.
            moves: moves from play logs, or a teacher on the device that makes the moves during training.
            folder: the folder of the networks and their games.
            device: the device of the networks and the games.
            show: called from time to time with a line of text and the finished share of the work.

        Raises:
            TrainingError: the folder has networks that learned from other moves, or its record is damaged.
        """
        self.options = options
        self._moves = moves
        self._folder = folder
        self._device = device
        self._show = show
        self._deadline = math.inf
        self._record_source()

    def _record_source(self) -> None:
        """Record the source of the moves in the folder. Raise `TrainingError` if another one is recorded."""
        key = "teacher_sha256" if isinstance(self._moves, TensorTeacher) else "moves_sha256"
        source = {key: self._moves.sha256}
        file = self._folder / "table.json"
        self._folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            write_text(file, json.dumps(source) + "\n")
        try:
            before = json.loads(file.read_text())
        except (ValueError, RecursionError) as error:
            raise TrainingError(f"{file} is damaged ({error}); name another --out") from error
        if before != source:
            raise TrainingError(
                f"{self._folder} has networks that learned from other moves; name another --out"
            )

    def run(self, minutes: float = math.inf) -> None:
        """Train and play until the folder has all results of the options.

        Raises:
            OutOfTime: `minutes` have passed. Another call continues.
            TrainingError: a network cannot learn, or a file is damaged.
        """
        self._deadline = time.monotonic() + 60 * minutes
        steps = list(self._steps())
        whole, before = sum(training + playing for _, _, training, playing in steps), 0.0
        for positions, row, training, playing in steps:
            shares = (before / whole, (before + training) / whole, (before + training + playing) / whole)
            self._step(row, positions, shares)
            before += training + playing

    def _steps(self) -> Iterator[tuple[int, PublishedRow, float, float]]:
        """Yield each step: the positions, the network, and the relative costs of training and games."""
        costs = {row.name: board_cost(row.architecture) for row in self.options.rows}
        boards = self.options.games * _GAME_MOVES * sum(VIEWS)
        earlier = 0
        for positions in stages(self.options.positions):
            for row in self.options.rows:
                cost = costs[row.name]
                yield positions, row, _TRAINING_COST * cost * (positions - earlier), cost * boards
            earlier = positions

    def _step(self, row: PublishedRow, positions: int, shares: tuple[float, float, float]) -> None:
        """Train one network up to `positions`, and let it play.

        Args:
            row: the network.
            positions: the total number of positions that it learns from.
            shares: finished shares of the work before the step, after its training and after its games.
        """
        place = self._folder / row.name / str(positions)
        before, trained, played = shares
        title = f"{row.name}, {positions:,} positions"

        def show_training(line: str, share: float) -> None:
            self._show(f"{title}: {line}", before + share * (trained - before))

        has_checkpoint = (place / "checkpoint.json").exists()
        if not has_checkpoint and not self._train(row, positions, place, show_training):
            return
        for number, views in enumerate(VIEWS):

            def show_games(line: str, share: float, number: int = number) -> None:
                done = (number + share) / len(VIEWS)
                self._show(f"{title}: {line}", trained + done * (played - trained))

            self._play(place, views, show_games)

    def _train(
        self, row: PublishedRow, positions: int, place: Path, show: Callable[[str, float], None]
    ) -> bool:
        """Train up to `positions`. If the network is past them, return False, or raise at the last stage."""
        run = self._new_run(row.architecture, positions)

        def report(progress: PolicyProgress) -> None:
            share = min(1.0, run.done / run.goal)  # the last batch may exceed the goal
            show(f"{progress.positions_per_second:,.0f} positions/s  {progress.details()}", share)

        left = (self._deadline - time.monotonic()) / 60
        if left <= 0:
            raise OutOfTime
        state = self._folder / row.name / "run"
        unfinished = place.with_name(place.name + ".unfinished")
        loop.train(run, state, unfinished, imitation.CURVES, report, left)
        if not run.finished:
            raise OutOfTime
        if run.positions >= positions + run.options.batch_size:
            shutil.rmtree(unfinished)
            if positions == self.options.positions:
                learned = f"the run has already learned from {run.positions:,} positions"
                raise TrainingError(f"{state}: {learned}; raise --positions to at least this number")
            return False
        unfinished.rename(place)
        return True

    def _new_run(self, architecture: Architecture, positions: int) -> Imitation | DeviceImitation:
        if isinstance(self._moves, TensorTeacher):
            return DeviceImitation(
                DeviceImitationOptions(positions=float(positions)), architecture, self._moves
            )
        bfloat16 = fastest_type(self._device) == torch.bfloat16
        options = ImitationOptions(positions=float(positions), bfloat16=bfloat16)
        return Imitation(options, architecture, self._moves, self._device)

    def _play(self, place: Path, views: int, show: Callable[[str, float], None]) -> None:
        """Play the games that are missing in the file of results, and append every finished game."""
        file = place / f"games-{views}.jsonl"
        games = read_games(file)
        missing = sorted(set(range(self.options.games)) - {game["game"] for game in games})
        if not missing:
            return
        checkpoint = checkpoints.load(place)
        network = checkpoint.network.to(self._device)
        player = NetworkPlayer(network, checkpoint.architecture, views, fastest_type(self._device))
        write_text(file, "".join(json.dumps(game) + "\n" for game in games))  # without a truncated last line
        with appending(file) as opened:
            for ended in play(player, _SEED_OF_GAMES, missing):
                if ended is not None:
                    games.append({"game": ended.game, "score": ended.score, "tile": ended.largest_tile})
                    opened.write(json.dumps(games[-1]) + "\n")
                    opened.flush()
                average = np.mean([game["score"] for game in games]) if games else 0.0
                done = f"{len(games):,} of {self.options.games:,} games (views: {views})"
                show(f"{done}, average score {average:,.0f}", len(games) / self.options.games)
                if time.monotonic() > self._deadline:
                    raise OutOfTime

    def results(self) -> list[Result]:
        """Return the results of every network, stage and number of views that has played all games.

        The options need not name it. The average of fewer games would be too low: short games end first.

        Raises:
            TrainingError: a file is damaged.
        """
        found = []
        for positions, name in self._reached():
            place = self._folder / name / str(positions)
            for views in VIEWS:
                games = read_games(place / f"games-{views}.jsonl")
                games = [game for game in games if game["game"] < self.options.games]
                if len(games) == self.options.games:
                    found.append(result_of(name, positions, views, games, place))
        return found

    def _reached(self) -> list[tuple[int, str]]:
        """Return the stages in the folder, sorted by positions, then by the order of the networks."""
        stages = [
            (int(place.name), name)
            for name in ROWS
            for place in (self._folder / name).glob("*")
            if re.fullmatch("[0-9]{1,18}", place.name)
        ]
        return sorted(stages, key=lambda stage: stage[0])


def stages(positions: int) -> list[int]:
    """Return the stages: the numbers of positions after which networks play, at least four if possible.

    Each number is at most about twice the one before, and the last is `positions`. The first is an eighth of
    `positions` if this is below a million, otherwise a million. So a table of more than eight million
    positions shares all its stages but the last with larger tables. Networks learn from whole batches, so few
    positions have fewer stages.
    """
    if positions < FIRST_STAGE << _LEAST_STAGES - 1:
        halves = (positions >> halvings for halvings in range(_LEAST_STAGES))
        return sorted({min(positions, -(-half // _BATCH) * _BATCH or _BATCH) for half in halves})
    doublings = (FIRST_STAGE << number for number in range(positions.bit_length()))
    return [*(stage for stage in doublings if stage < positions), positions]


def board_cost(architecture: Architecture) -> float:
    """Return the number of floating-point operations of a network for one board."""
    network = build(architecture).eval()
    board = torch.zeros(1, 16, dtype=torch.uint8)
    encode = BoardEncoder(interface_of(network), architecture.get("exponents"), torch.float32)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(encode(board))
    return float(counter.get_total_flops())

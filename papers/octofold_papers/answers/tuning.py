"""The command `octofold-papers tune`, which tunes the weights of expectimax's heuristic by playing games.

The covariance matrix adaptation evolution strategy (CMA-ES) draws candidates from a normal distribution, and
adapts this distribution to the best candidates (Hansen, "The CMA Evolution Strategy: A Tutorial", 2016;
the library `cma`). Petr Moravek found the weights of `expectimax` in this way. All candidates of a generation
play the same games, which reduces luck. Each generation plays new games, so that the weights do not overfit
certain games.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import cma
import msgspec
import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.system.files import appending, write_text
from octofold_players.expectimax.player import HEURISTICS, LARGEST_POWER, HeuristicExpectimaxPlayer, Weights
from octofold_training.errors import TrainingError
from octofold_training.run.folder import exclusive_folder
from octofold_training.run.progress import Forecast, ProgressLine

if TYPE_CHECKING:
    from octofold_papers.cli import TuneFlags

_SPREAD = 0.2  # initial standard deviation of the candidates' weights, in the units of the heuristic
_UNITS = {
    "moravek": Weights(270.0, 700.0, 47.0, 4.0, 11.0, 3.5, 500.0),
    # Where nneonneo's weight is 0, the unit is Moravek's weight times the ratio of the weights of an empty
    # cell.
    "nneonneo": Weights(10_000.0, 26_000.0, 1_740.0, 4.0, 407.0, 3.5, 20_000.0),
}


class Candidate(msgspec.Struct, frozen=True):
    """Weights that have been tried, the number of their first game, and their average score."""

    weights: str
    first_game: int
    average: float
    depth: int = 2  # files of version 0.2.0 may lack it, and the next field
    games: int = 300


def tune(flags: TuneFlags) -> None:
    """Search for weights, and print the player with the mean weights of the last distribution.

    Candidates in the folder are not played again.

    Raises:
        TrainingError: the folder is damaged, in use, or belongs to a run with other flags.
    """
    units = np.array(_UNITS[flags.heuristic])
    start = np.array(HEURISTICS[flags.heuristic].weights) / units
    evolution = cma.CMAEvolutionStrategy(start, _SPREAD, {"seed": flags.seed + 1, "verbose": -9})
    forecast, began, file = Forecast(flags.minutes * 60), time.monotonic(), flags.state / "candidates.jsonl"
    done = first_game = 0
    with exclusive_folder(flags.state), ProgressLine() as line:
        played = _read(file)
        while done < flags.candidates and time.monotonic() - began < flags.minutes * 60:
            drawn, averages = evolution.ask(), []
            for each in drawn:
                weights = _option_text(each * units)
                if done == len(played):
                    average = _average(flags, weights, first_game)
                    played.append(Candidate(weights, first_game, average, flags.depth, flags.games))
                    with appending(file) as opened:
                        opened.write(msgspec.json.encode(played[-1]).decode() + "\n")
                wanted = Candidate(weights, first_game, played[done].average, flags.depth, flags.games)
                if played[done] != wanted:
                    raise TrainingError(f"{file} belongs to a run with other flags; name another --state")
                averages.append(played[done].average)
                done += 1
                line.show(
                    f"{done} of {flags.candidates} candidates  average score {averages[-1]:,.0f}",
                    done / flags.candidates,
                    forecast.left(time.monotonic(), done, flags.candidates),
                )
            evolution.tell(drawn, [-average for average in averages])
            first_game += flags.games
    found = _option_text(evolution.result.xfavorite * units)
    print(f"{done} candidates: expectimax:depth={flags.depth},heuristic={flags.heuristic},weights={found}")


def _read(file: Path) -> list[Candidate]:
    """Return the candidates of a file; a missing file has none. Remove an incomplete last line."""
    if not file.exists():
        return []
    text = file.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    try:
        candidates = [msgspec.json.decode(line, type=Candidate) for line in whole.splitlines()]
    except msgspec.MsgspecError as error:
        raise TrainingError(f"{file} is damaged ({error}); name another --state") from error
    if whole != text:
        write_text(file, whole)
    return candidates


def _average(flags: TuneFlags, weights: str, first_game: int) -> float:
    """Play the games of a candidate and return their average score."""
    player = HeuristicExpectimaxPlayer(flags.depth, heuristic=flags.heuristic, weights=weights)
    episodes = Episodes(flags.seed, range(first_game, first_game + flags.games))
    scores: list[int] = []
    while len(episodes.boards):
        scores += (ended.score for ended in episodes.step(player.next_moves(episodes.boards)))
    return math.fsum(scores) / len(scores)


def _option_text(weights: NDArray[np.float64]) -> str:
    """Return the text for expectimax's option `weights`: without signs, powers limited to `LARGEST_POWER`."""
    pairs = zip(Weights._fields, np.abs(weights), strict=True)
    values = (min(value, LARGEST_POWER) if name.endswith("power") else value for name, value in pairs)
    # The format `.4g` would write a plus sign in exponents.
    return "+".join(np.format_float_positional(value, 4, fractional=False, trim="-") for value in values)

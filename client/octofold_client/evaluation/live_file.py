"""Writes the running games of an evaluation into a file in the result folder, for programs that show them.

The page of `octofold-serve` reads the file. The file is replaced as a whole, at most twice a second, so
a reader never sees a partial file.
"""

import json
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from octofold_game.contract.results import LIVE_FILE
from octofold_game.episodes import Episode
from octofold_game.system.files import write_text

from octofold_client.evaluation.playing import PlayedBatch

WRITE_SECONDS = 0.5
PACE_SECONDS = 5.0
"""Period over which the moves per second are measured."""
MAX_BOARDS = 24
"""Maximum number of games whose boards are written. The games with the lowest indices are chosen."""
MAX_SCORES = 4096
"""Maximum number of running games whose scores and largest tiles are written."""


class LiveFile:
    """Writes the file of running games during an evaluation; a context manager.

    When the block ends, a last file without running games replaces the file. Before `resume` is called,
    nothing is written, because an existing file may belong to another evaluation.

    Args:
        folder: the result folder.
        player: the player's name.
        seed: seed of the games.
        games: number of games to play.
        clock: returns the time in seconds since a fixed moment.
    """

    def __init__(
        self,
        folder: Path,
        player: str,
        seed: int,
        games: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = folder / LIVE_FILE
        self._fixed = {"player": player, "seed": seed, "games": games}
        self._clock = clock
        self._begun = False
        self._finished = 0
        self._moves = 0
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._written = -WRITE_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._begun and self._file.exists():
            self._write([])

    def resume(self, finished: int) -> None:
        """Set the number of games that earlier runs finished. Call this method before `update`."""
        self._begun = True
        self._finished = finished

    def update(self, step: PlayedBatch) -> None:
        """Count the moves and finished games of a batch. Write the file if `WRITE_SECONDS` have passed."""
        self._finished += len(step.finished)
        self._moves += step.moves
        if (now := self._clock()) >= self._written + WRITE_SECONDS:
            self._marks.append((now, self._moves))
            while len(self._marks) > 2 and now - self._marks[1][0] >= PACE_SECONDS:
                self._marks.popleft()
            self._written = now
            self._write(step.unfinished())

    def _write(self, running: list[Episode]) -> None:
        (before, moves), (now, moves_now) = self._marks[0], self._marks[-1]
        content: dict[str, Any] = {
            **self._fixed,
            "updated": round(time.time(), 3),
            "finished": self._finished,
            "moves_per_second": round((moves_now - moves) / (now - before)) if now > before else 0,
            "running_scores": [episode.score for episode in running[:MAX_SCORES]],
            "running_exponents": [int(episode.final_board.max()) for episode in running[:MAX_SCORES]],
            "boards": [
                {
                    "game": episode.game,
                    "board": episode.final_board.tolist(),
                    "score": episode.score,
                    "moves": len(episode),
                }
                for episode in sorted(running, key=lambda each: each.game)[:MAX_BOARDS]
            ],
        }
        write_text(self._file, json.dumps(content) + "\n")

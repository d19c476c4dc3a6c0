"""Measures how strong and how fast local players are.

    python bench/strength/players.py --games 20
    python bench/strength/players.py --games 40 --player expectimax:depth=6 --keep runs/players
    python bench/strength/players.py --games 100 --player minimax:milliseconds=100 --until 2048 --parallel 2

All players play the games of one seed, so their rows can be compared. Some games of a row run in lockstep,
on all cores. The speed is that of one core, moves in a second of CPU time, so that other programs disturb it
little. Ctrl-C ends the benchmark and shows the games finished so far. With `--keep`, the same command
continues them.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

from octofold_client.contenders.local_players import local_player
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.summary import GameSummary, Summary
from octofold_client.evaluation.tables import rows_of
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_game.episodes import Episode, Episodes
from octofold_game.replays import ReplayWriter, read_replays
from octofold_game.system.files import whole_file, write_text

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

PLAYERS = (
    "random",
    "montecarlo:runs=20",
    "montecarlo:runs=100",
    "minimax:depth=3",
    "minimax:depth=5",
    "expectimax:depth=1",
    "expectimax:depth=2",
    "expectimax:depth=3",
)
SAVE_SECONDS = 60
SHOWN_TILES = (2048, 4096, 8192, 16384, 32768, 65536)


def main() -> None:
    """Run the benchmark."""
    options = _options()
    results: dict[str, dict[str, Any]] = {}
    rows = []
    interrupted = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for spec in options.player or PLAYERS:
        print(spec, file=sys.stderr)
        measured = Measurement(spec, options.seed, options.until, options.keep)
        try:
            measured.play(options.games, options.parallel)
        except KeyboardInterrupt:
            interrupted = True
        if measured.finished:
            summary = Summary.of([GameSummary.of(episode) for episode in measured.finished])
            average = rows_of(summary)[0][0]
            reached = {each.tile: f"{each.share:.0%}" for each in summary.reached}
            row = (spec, len(measured.finished), average.measured, average.interval)
            rows.append(
                (*row, *(reached[tile] for tile in SHOWN_TILES), f"{measured.moves_per_cpu_second:,.0f}")
            )
            results[spec] = {
                "moves_per_cpu_second": measured.moves_per_cpu_second,
                "until": options.until,
                **summary.to_json(),
            }
        if interrupted:
            break
    until = f", which end with the tile {options.until}" if options.until else ""
    report(
        f"local players, {options.games} games of seed {options.seed}{until}",
        ["player", "games", "average", "95% interval", *map(str, SHOWN_TILES), "moves/CPU s"],
        rows,
        players=results,
    )


class Measurement:
    """The games of a player, kept in a folder if one is given."""

    def __init__(self, spec: str, seed: int, until: int, folder: Path | None) -> None:
        self._player = local_player(spec)
        largest = self._player.largest_exponent
        self._episodes = Episodes(seed, (), min(largest, until.bit_length() - 2) if until else largest)
        self.finished: list[Episode] = []
        self._moves, self._cpu_seconds = 0, 0.0
        self._writer: ReplayWriter | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w.=-]+", "_", spec) + f"-seed-{seed}" + (f"-until-{until}" if until else "")
            self._file = folder / f"{name}.replay"
            self._beside = folder / f"{name}.json"
            self._rest = folder / f"{name}.unfinished"
            self._writer = ReplayWriter(self._file)
            self._load()

    @property
    def moves_per_cpu_second(self) -> float:
        """The speed of all games so far."""
        return self._moves / self._cpu_seconds if self._cpu_seconds else 0.0

    def play(self, games: int, parallel: int) -> None:
        """Play the games that are not finished yet, `parallel` at a time; an interrupt keeps their state."""
        episodes, player = self._episodes, self._player.player
        known = {episode.game for episode in self.finished} | set(episodes.running.tolist())
        waiting = [game for game in range(games) if game not in known]
        player.next_moves(Episodes(0, [0]).boards)  # compiles the player before it is timed
        started, saved = time.process_time() - self._cpu_seconds, time.monotonic()
        # Between two instructions of a step, an interrupt would leave a game that the rules do not allow.
        with DeferredInterrupts() as interrupts:
            try:
                while len(episodes.running) or waiting:
                    interrupts.check()
                    free = max(0, parallel - len(episodes.running))
                    episodes.start(waiting[:free])
                    del waiting[:free]
                    chosen = player.next_moves(episodes.boards)
                    self._moves += len(chosen)
                    for episode in episodes.step(chosen):
                        self._finish(episode)
                        told = f"  {len(self.finished)} of {games}: {episode.score:,}"
                        print(told, file=sys.stderr, flush=True)
                    if time.monotonic() > saved + SAVE_SECONDS:
                        self._save(time.process_time() - started)
                        saved = time.monotonic()
            finally:
                self._save(time.process_time() - started)
                if self._writer is not None:
                    self._writer.close()

    def _finish(self, episode: Episode) -> None:
        self.finished.append(episode)
        if self._writer is not None:
            self._writer.append(episode)

    def _save(self, cpu_seconds: float) -> None:
        self._cpu_seconds = cpu_seconds
        if self._writer is None:
            return
        with whole_file(self._rest) as partial:
            partial.unlink(missing_ok=True)  # left by a killed run; the writer would append to it
            with ReplayWriter(partial) as rest:
                for episode in self._episodes.unfinished():
                    rest.append(episode)
        kept = {"player": self._player.sha256, "moves": self._moves, "cpu_seconds": self._cpu_seconds}
        write_text(self._beside, json.dumps(kept))

    def _load(self) -> None:
        self.finished = list(read_replays(self._file))
        if self._beside.exists():
            kept = json.loads(self._beside.read_text())
            if kept.get("player") != self._player.sha256:
                raise EvaluationError(f"{self._file} has games of another player: name another folder")
            self._moves, self._cpu_seconds = kept["moves"], kept["cpu_seconds"]
        if self._rest.exists():
            done = {episode.game for episode in self.finished}
            self._episodes.resume([each for each in read_replays(self._rest) if each.game not in done])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--player",
        action="append",
        metavar="SPEC",
        help="player to measure; may be repeated (default: " + ", ".join(PLAYERS) + ")",
    )
    parser.add_argument("--games", type=int, default=20, help="games per player (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the games (default: %(default)s)")
    parser.add_argument("--parallel", type=int, default=64, help="games at a time (default: %(default)s)")
    parser.add_argument(
        "--until",
        type=int,
        default=0,
        metavar="TILE",
        help="end a game that reaches this tile (default: none)",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="folder for the games, from which the same command continues"
    )
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except EvaluationError as error:
        sys.exit(f"players.py: {error}")

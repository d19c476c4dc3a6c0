"""Writes the games of a result folder as play logs (one move a line), from which networks can learn."""

from collections.abc import Callable
from pathlib import Path

from octofold_game.play_logs.moves import LoggedMoves
from octofold_game.play_logs.text import log_writer
from octofold_game.trajectories import all_positions, batched

from octofold_client.evaluation.result_folder import ResultFolder

GAMES_PER_FILE = 100
_MOVES_AT_ONCE = 1 << 16


def write_logs(
    folder: ResultFolder, count: Callable[[int], None], check: Callable[[], None]
) -> dict[Path, int]:
    """Write all finished games of the folder into play logs. A log appears when it is complete.

    Args:
        folder: the result folder, which also receives the logs.
        count: called with the number of moves written since the last call.
        check: called often. An exception from it ends the work; complete files stay.

    Returns:
        The number of moves of each file.

    Raises:
        ReplayError: the games cannot be read.
        OSError: a file cannot be written.
    """
    files: dict[Path, int] = {}
    for number, episodes in enumerate(batched(folder.finished(), GAMES_PER_FILE)):
        path = folder.path / f"moves-{number:05}.txt.gz"
        positions = all_positions(episodes)
        with log_writer(path) as append:
            for start in range(0, len(positions), _MOVES_AT_ONCE):
                check()
                rows = slice(start, start + _MOVES_AT_ONCE)
                some = LoggedMoves(positions.boards[rows], positions.made[rows], positions.cells[rows])
                append(some)
                count(len(some))
        files[path] = len(positions)
    return files

"""The flags for the games of an evaluation, and the result folders that they select."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from octofold_game.commands.options import Folder, Kind, Seed, WrongValue, option
from octofold_game.contract.results import RESULTS

from octofold_client.contenders.local_players import Contender, LocalContender
from octofold_client.evaluation.playing import RETRY_TIMEOUT_SECONDS
from octofold_client.evaluation.result_folder import ResultFolder, check_writable
from octofold_client.evaluation.slices import Slice, slice_numbers
from octofold_client.evaluation_run import LOCAL_PARALLEL, PARALLEL, Games

_NOT_IN_NAMES = re.compile(r"[^\w.,=-]+")
GAMES = 100
"""Default of --games."""
MOST_GAMES = 10**9
MOST_PARALLEL = 2 * 65_536
"""Maximum of --parallel: two groups of games, each as large as the largest call that a server accepts."""
MOST_PATIENCE = 7 * 24 * 3600


def _slice(text: str) -> tuple[int, int]:
    try:
        return slice_numbers(text)
    except ValueError as error:
        raise WrongValue(str(error)) from None


SliceNumbers = Annotated[tuple[int, int], Kind(_slice, "a slice", "K/N", is_plain=True)]


@dataclass(kw_only=True)
class GameFlags:
    """The flags for the games to play and their folder."""

    games: int | None = option(None, f"number of games (default: {GAMES})", 1, MOST_GAMES)
    seed: Seed = option(0, "seed of the new tiles; equal seeds give equal tiles", metavar="N")
    parallel: int | None = option(
        None,
        f"number of games at a time (default: {PARALLEL}; {LOCAL_PARALLEL} for a local player)",
        1,
        MOST_PARALLEL,
    )
    out: Folder | None = option(None, "folder for replays and result (default: a folder in results)")
    patience: int | None = option(
        None,
        "seconds to retry while no server answers, for example during a restart (default: "
        f"{RETRY_TIMEOUT_SECONDS:g} during the games, 0 before the first game)",
        0,
        MOST_PATIENCE,
        metavar="SECONDS",
    )
    watch: bool = option(
        False,
        "also write the boards of running games into live.json in the result folder; the Watch tab of the "
        "server's page shows them",
    )


@dataclass(kw_only=True)
class SliceFlag:
    """The flag `--slice`, which selects a part of the games."""

    slice: SliceNumbers | None = option(
        None, "cut the games into N slices and play only slice K; octofold merge puts the slices together"
    )


def games_of(options: GameFlags) -> Games:
    """Return the games that the flags request.

    Raises:
        EvaluationError: the folder of --out cannot be written, or there are fewer games than slices.
    """
    number = options.games or GAMES
    numbers = options.slice if isinstance(options, SliceFlag) else None
    if options.out:
        check_writable(options.out)
    wanted = Slice(*numbers, number) if numbers else number
    patience = RETRY_TIMEOUT_SECONDS if options.patience is None else options.patience
    return Games(wanted, options.seed, options.parallel, options.watch, patience)


def folder_of(options: GameFlags, games: Games, contender: Contender, *, alone: bool) -> ResultFolder:
    """Return the folder for a player's games: --out if it plays `alone`, otherwise a subfolder of --out.

    Without --out, the folder is in `results`.
    """
    name = folder_name("evaluate", contender, games)
    if not options.out:
        return ResultFolder(RESULTS / name)
    return ResultFolder(options.out if alone else options.out / name)


def folder_name(command: str, contender: Contender, games: Games) -> str:
    """Return a folder name such as "evaluate-cnn5-v3-seed1"."""
    model, part = name_in_folder(contender.model), games.wanted
    version = f"v{contender.version.version}"
    if isinstance(contender, LocalContender) and not contender.has_own_digest and contender.sha256:
        version += f"-{contender.sha256[:8]}"  # a changed player gets another folder
    suffix = f"-slice{part.number}of{part.of}" if isinstance(part, Slice) else ""
    return f"{command}-{model}-{version}-seed{games.seed}{suffix}"


def name_in_folder(name: str) -> str:
    """Return the name, with hyphens in place of characters that folder names should not contain."""
    return _NOT_IN_NAMES.sub("-", name)


def result_folders(name: str) -> Iterator[Path]:
    """Yield the folders NAME, NAME-2, NAME-3 ... in `results`, without end."""
    yield RESULTS / name
    for number in itertools.count(2):
        yield RESULTS / f"{name}-{number}"

"""The folder of an evaluation: conditions, replays of all games, result and report.

Each game is written when it finishes, so no finished game is lost when a run ends early. Unfinished games are
kept in a second replay file. All other files except `runs.jsonl` are replaced as a whole.
"""

import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec
from octofold_game.commands.suggestions import missing
from octofold_game.contract.results import (
    CONDITIONS_FILE,
    GAMES_FILE,
    RESULT_FILE,
    UNFINISHED_FILE,
    Completeness,
)
from octofold_game.episodes import Episode
from octofold_game.referee import ReplayError
from octofold_game.replays import (
    ReplayInUse,
    ReplayOrder,
    ReplayWriter,
    read_replays,
    recover,
    write_in_order,
)
from octofold_game.system.files import atomic_write, write_text

from octofold_client.contenders.local_players import Contender
from octofold_client.errors import EvaluationError, FolderInUse, OtherEvaluation
from octofold_client.evaluation.slices import MOST_GAMES, Slice
from octofold_client.evaluation.summary import GameSummary, in_order
from octofold_client.wording import describe

_ADVICE = "choose another folder"


@dataclass(frozen=True)
class Conditions:
    """Everything that determines the games. All games in a result folder have the same conditions."""

    model: str
    version: str
    precision: str
    """Precision of the model; empty for a local player."""
    sha256: str | None
    """SHA-256 of the model file, from its card, or of the local player; None if unknown."""
    seed: int
    slice: Slice | None = None
    """The slice to which all games of the folder belong; None if the folder may have games of any index."""
    games: int | None = field(default=None, compare=False)
    """Number of games planned in all slices together, from game 0 of the seed on; None if unknown."""

    @classmethod
    def of(cls, contender: Contender, seed: int, games: int | Slice = 0) -> "Conditions":
        """Return the conditions of a player's games; `games` is their number (0: unknown) or a slice."""
        version = contender.version
        part, planned = (games, games.games) if isinstance(games, Slice) else (None, games or None)
        return cls(contender.model, version.version, version.precision, contender.sha256, seed, part, planned)

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> "Conditions":
        """Read the conditions that `to_json` returned.

        Raises:
            msgspec.ValidationError: the content is not the conditions of games.
            EvaluationError: the content names a slice that does not exist.
        """
        return msgspec.convert(content, cls)

    @property
    def player(self) -> str:
        """The player's name, followed by its version if it has one."""
        return f"{self.model} version {self.version}" if self.version else self.model

    @property
    def anonymous(self) -> bool:
        """Whether the player is a local player without a digest, so that its changes cannot be noticed."""
        return not self.precision and self.sha256 is None

    @property
    def planned(self) -> range | None:
        """The indices of the planned games; None if they are unknown."""
        if self.slice is not None:
            return self.slice.range
        return None if self.games is None else range(self.games)

    def completeness(self, finished: Collection[int], running: Collection[int] = ()) -> Completeness:
        """Count the planned games by state, from the indices of the finished and the running games."""
        planned = self.planned
        games = range(MOST_GAMES) if planned is None else planned
        ended, left = ([game for game in part if game in games] for part in (finished, running))
        return Completeness.of(planned, len(ended), len(left), max([*ended, *left], default=-1))

    def to_json(self) -> dict[str, Any]:
        """Return the conditions as plain JSON values. Fields that are None are left out, except `sha256`."""
        content = asdict(self)
        return {name: value for name, value in content.items() if value is not None or name == "sha256"}


class ResultFolder:
    """The files of one evaluation below `path`, which need not exist yet."""

    @classmethod
    def of_evaluation(cls, path: Path) -> tuple["ResultFolder", Conditions]:
        """Return the folder of an evaluation that has begun, and its conditions.

        Raises:
            EvaluationError: the folder does not exist, contains no evaluation, or its conditions are damaged.
        """
        folder = cls(existing(path))
        conditions = folder.conditions()
        if conditions is None:
            raise EvaluationError(f"{path} is not a result folder")
        return folder, conditions

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replays = path / GAMES_FILE
        self.unfinished = path / UNFINISHED_FILE
        self.result = path / RESULT_FILE
        self.report = path / "report.md"
        self._conditions = path / CONDITIONS_FILE

    def conditions(self) -> Conditions | None:
        """Return the conditions of the games in the folder; None if it contains no evaluation.

        Raises:
            EvaluationError: the file of conditions is damaged.
        """
        try:
            content = json.loads(self._conditions.read_text())
            json.dumps(content, ensure_ascii=False).encode()  # rejects text that cannot be written as UTF-8
            return Conditions.of_json(content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, RecursionError, EvaluationError):
            raise EvaluationError(
                f"{self._conditions} is damaged: it should contain the conditions of the games"
            ) from None

    @contextmanager
    def open_or_resume(self, conditions: Conditions) -> Iterator["KeptGames"]:
        """Open the folder to add games of these conditions; only one program can do so at a time.

        Raises:
            FolderInUse: another program has opened the folder.
            OtherEvaluation: the folder contains games of other conditions, or perhaps of another player.
            EvaluationError: the folder cannot be written, contains files but no evaluation, or its file
                of conditions is missing or damaged.
            ReplayError: a replay file is damaged, or a game is repeated, of another seed or without moves.
        """
        check_writable(self.path)
        if not self._conditions.exists() and not self.replays.exists() and any(self.path.iterdir()):
            raise EvaluationError(f"{self.path} is not empty and contains no games; {_ADVICE}")
        try:
            writer = ReplayWriter(self.replays)
        except ReplayInUse:
            raise FolderInUse(f"another program is writing games into {self.path}; {_ADVICE}") from None
        with writer:
            before = self.conditions()
            games, order = list[GameSummary](), ReplayOrder()
            for episode in self._finished(before):
                games.append(GameSummary.of(episode))
                order.add(episode)
            if before is None:
                if games:
                    raise EvaluationError(
                        f"{self.replays} contains games, but {self._conditions} is missing; {_ADVICE}"
                    )
            elif before != conditions:
                raise OtherEvaluation(
                    f"{self.path} contains games of {differences(before, conditions)}; {_ADVICE}"
                )
            elif conditions.anonymous and (games or self.unfinished.exists()):
                raise OtherEvaluation(
                    f"{self.path} contains games of a player named {conditions.player}, which may have been "
                    f"another player: {_ADVICE}; to continue games, a player needs an attribute sha256"
                )
            planned = conditions
            if (
                before is not None
                and (before.games or 0) > (conditions.games or 0)
                and not before.completeness([each.game for each in games]).missing
            ):
                planned = before  # the folder contains a larger evaluation, which is finished
            if before is None or before.games != planned.games:
                self.write_conditions(planned)
            yield KeptGames(games, order, writer, self, planned)

    def read(
        self, on_game: Callable[[Episode], None] = lambda _: None, games: range | None = None
    ) -> tuple[list[GameSummary], Completeness]:
        """Return the finished games in the order of their indices, and how many games are missing.

        Args:
            on_game: called with each of these games, in the order of the replay file.
            games: indices of the games to read; None for all planned games.

        Raises:
            EvaluationError: the folder contains no evaluation or no replays, or its conditions are damaged.
            ReplayError: a replay file is damaged, or a game is repeated, of another seed or without moves.
        """
        conditions = self.of_evaluation(self.path)[1]
        planned = conditions.planned or range(MOST_GAMES)
        wanted = planned if games is None else games
        table = list[GameSummary]()
        for episode in self.finished():
            if episode.game in wanted:
                table.append(GameSummary.of(episode))
                on_game(episode)
        table = in_order(table)
        if games is not None:
            return table, Completeness.of(games, len(table), 0, games.stop - 1)
        finished, running = {each.game for each in table}, set[int]()
        # A running program may be replacing the file, and a full disk may have cut it off. Count the games
        # that can be read.
        with suppress(FileNotFoundError, ReplayError):
            running.update(each.game for each in _checked(self.unfinished, conditions.seed))
        return table, conditions.completeness(finished, running - finished)

    def finished(self) -> Iterator[Episode]:
        """Yield the finished games in the order of the replay file (see `KeptGames.put_in_order`).

        Raises:
            EvaluationError: the folder contains no replay file, or the file of conditions is damaged.
            ReplayError: the replay file is damaged, or a game is repeated, of another seed or without moves.
        """
        conditions = self.conditions()
        try:
            yield from self._finished(conditions)
        except (FileNotFoundError, NotADirectoryError):
            raise EvaluationError(f"{self.path} is not a result folder: {self.replays} is missing") from None

    def _finished(self, conditions: Conditions | None) -> Iterator[Episode]:
        seed = None if conditions is None else conditions.seed
        for episode in _checked(self.replays, seed):
            if not episode.moves:
                raise ReplayError(f"{_game_in(self.replays, episode)} has no moves", episode.game)
            yield episode

    def write_conditions(self, conditions: Conditions) -> None:
        """Write the file of conditions. Raise `OSError` if it cannot be written."""
        write_text(self._conditions, json.dumps(conditions.to_json(), indent=2) + "\n", durable=True)

    def write_result(self, result: dict[str, Any], scores: Iterable[dict[str, Any]], report: str) -> None:
        """Replace the result file and the report, each atomically.

        Args:
            result: the content of the result file, with an empty list as `scores`.
            scores: the rows of that list, which are written one by one.
            report: the content of the report.

        Raises:
            OSError: a file cannot be written.
        """
        before, empty, after = json.dumps(result, indent=2).partition('\n  "scores": []')
        with atomic_write(self.result, durable=True) as partial, partial.open("w", encoding="utf-8") as file:
            file.write(before + empty[:-1])
            mark = "\n    "
            for row in scores:
                file.write(mark + json.dumps(row))
                mark = ",\n    "
            file.write(f"\n  ]{after}\n")
        write_text(self.report, report)


class KeptGames:
    """The games of a result folder that is open for more games."""

    def __init__(
        self,
        games: list[GameSummary],
        order: ReplayOrder,
        writer: ReplayWriter,
        folder: ResultFolder,
        planned: Conditions,
    ) -> None:
        self.games = games
        """The games that were finished when the folder was opened, in the order of the replay file."""
        self.replays = folder.replays
        self.recovered = writer.recovered
        """Number of bytes of an incomplete record that were removed from the end of the replay file."""
        recover(folder.unfinished)
        # After a killed run, the file of unfinished games may contain games that have finished.
        unfinished = _checked(folder.unfinished, planned.seed) if folder.unfinished.exists() else ()
        finished = {each.game for each in games}
        self.unfinished = [episode for episode in unfinished if episode.game not in finished]
        """The games that the last run left unfinished."""
        self.planned = planned
        """The conditions with the number of planned games: the requested number, or a larger one if the
        folder contains a finished evaluation of more games."""
        self._order = order
        self._writer = writer
        self._folder = folder

    def append(self, episodes: list[Episode]) -> list[GameSummary]:
        """Append finished games to the replay file, and return their summaries.

        Raises:
            OSError: a game could not be written.
        """
        for episode in episodes:
            self._writer.append(episode)
            self._order.add(episode)
        return [GameSummary.of(episode) for episode in episodes]

    def put_in_order(self, check: Callable[[], None]) -> None:
        """Sort the replay file by game index, atomically. No games may be appended afterwards.

        The order in which games finish depends on timing. After sorting, equal games make equal files.

        Args:
            check: called often; an exception from it leaves the file unchanged.

        Raises:
            OSError: the file cannot be written.
        """
        if not self._order.is_in_order:
            with atomic_write(self._folder.replays, durable=True) as partial:
                write_in_order([(self._folder.replays, self._order)], partial, check)

    def save_unfinished(self, episodes: Sequence[Episode]) -> None:
        """Replace the saved unfinished games, with which the next run continues.

        Raises:
            OSError: the games cannot be written.
        """
        self._writer.sync()  # a finished game must reach the disk before its unfinished form is removed
        if not episodes:
            self._folder.unfinished.unlink(missing_ok=True)
            return
        with atomic_write(self._folder.unfinished, durable=True) as partial:
            partial.unlink(missing_ok=True)  # a file of a killed run, to which the writer would append
            with ReplayWriter(partial) as writer:
                for episode in episodes:
                    writer.append(episode)


def _checked(replays: Path, seed: int | None) -> Iterator[Episode]:
    """Yield the games of a file. Raise `ReplayError` if a game occurs twice or has another seed."""
    seen = set[int]()
    for episode in read_replays(replays):
        if episode.game in seen:
            raise ReplayError(f"{_game_in(replays, episode)} occurs twice", episode.game)
        seen.add(episode.game)
        if seed is not None and episode.seed != seed:
            raise ReplayError(f"{_game_in(replays, episode)} is in a folder of seed {seed}", episode.game)
        yield episode


def _game_in(replays: Path, episode: Episode) -> str:
    return f"{replays}: game {episode.game} of seed {episode.seed}"


def check_writable(folder: Path) -> None:
    """Create the folder if it is missing, and check that files can be written into it.

    Raises:
        EvaluationError: the folder or a file in it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        error.filename = None  # omits the name of the temporary file from the message
        raise EvaluationError(f"cannot write into {folder}: {describe(error)}") from None


def existing(path: Path) -> Path:
    """Return the path, which must exist.

    Raises:
        EvaluationError: the path does not exist; the message suggests a similar name, if any.
    """
    if path.exists():
        return path
    raise EvaluationError(missing(path))


def replays_of(path: Path) -> Path:
    """Return the path of a replay file: `path` itself or, for a result folder, the file in it.

    Raises:
        EvaluationError: the path does not exist.
    """
    return ResultFolder(path).replays if existing(path).is_dir() else path


def differences(before: Conditions, now: Conditions) -> str:
    """Return how conditions differ, such as "seed 1, not 0", with only the start of each digest."""

    def format_value(name: str, value: Any) -> str:
        if value is None:
            return "none" if name == "slice" else "unknown"
        if value == "":
            return "none"
        return f"{value[:12]}..." if name == "sha256" else str(value)

    return ", ".join(
        f"{name} {format_value(name, old)}, not {format_value(name, new)}"
        + (" (the player or its files have changed)" if name == "sha256" else "")
        for name, old, new in (
            (field.name, *(getattr(each, field.name) for each in (before, now))) for field in fields(before)
        )
        if old != new
    )

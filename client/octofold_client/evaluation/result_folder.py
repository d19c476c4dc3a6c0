"""The folder of an evaluation: its conditions, the replay of every finished game, the result and the report.

The replays grow game by game, so that nothing finished is lost when a run ends early; games that were running
are kept as they stood. Every other file is written under another name and then renamed.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from octofold_game.episodes import Episode
from octofold_game.files import whole_file, write_text
from octofold_game.replays import ReplayError, ReplayInUse, ReplayWriter, read_replays
from octofold_game.suggestions import did_you_mean

from octofold_client.contenders.contender import Contender
from octofold_client.errors import EvaluationError, FolderInUse, OtherEvaluation
from octofold_client.evaluation.summary import GameSummary
from octofold_client.wording import described

_ELSEWHERE = "choose another folder"


@dataclass(frozen=True)
class Conditions:
    """What decides how the games go: games of different conditions never share a folder."""

    model: str
    version: str
    precision: str
    """Empty for a local player."""
    sha256: str | None
    """Digest of the model file that answers, by its card, or of a local player; see `identity.py`."""
    seed: int

    @classmethod
    def of(cls, contender: Contender, seed: int) -> "Conditions":
        """The conditions of games by this contender."""
        version = contender.version
        return cls(contender.model, version.version, version.precision, contender.sha256, seed)

    @property
    def player(self) -> str:
        """For people. A player of somebody's own has no version."""
        return f"{self.model} version {self.version}" if self.version else self.model

    @property
    def anonymous(self) -> bool:
        """A local player whose moves depend on something that has no digest."""
        return not self.precision and self.sha256 is None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class ResultFolder:
    """The files of one evaluation below `path`, which need not exist yet."""

    @classmethod
    def of_evaluation(cls, path: Path) -> tuple["ResultFolder", Conditions]:
        """The folder of an evaluation that has begun, and its conditions.

        Raises `EvaluationError` where there is no folder, or none of an evaluation.
        """
        folder = cls(existing(path))
        conditions = folder.conditions()
        if conditions is None:
            raise EvaluationError(f"{path} holds no evaluation")
        return folder, conditions

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replays = path / "games.replay"
        self.unfinished = path / "unfinished.replay"
        self.result = path / "result.json"
        self.report = path / "report.md"
        self._conditions = path / "conditions.json"

    def conditions(self) -> Conditions | None:
        """Those of the games in the folder; None when it holds no evaluation.

        Raises `EvaluationError` when the file that says so is not what it should be.
        """
        try:
            return Conditions(**json.loads(self._conditions.read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError):
            raise EvaluationError(
                f"{self._conditions} is damaged; it should say whose games are here"
            ) from None

    @contextmanager
    def open(self, conditions: Conditions) -> Iterator["KeptGames"]:
        """The games that the folder holds, ready to take more of the same conditions; one program at a time.

        Raises:
            FolderInUse: another program has it open.
            OtherEvaluation: its games were played under other conditions.
            EvaluationError: it cannot be written, or holds replays without saying of what.
            ReplayError: a replay file is damaged.
        """
        check_writable(self.path)
        try:
            writer = ReplayWriter(self.replays)
        except ReplayInUse:
            raise FolderInUse(f"another program is playing games into {self.path}; {_ELSEWHERE}") from None
        with writer:
            games = [GameSummary.of(episode) for episode in read_replays(self.replays)]
            before = self.conditions()
            if before is None:
                if games:
                    raise EvaluationError(f"nothing says whose games {self.replays} holds; {_ELSEWHERE}")
                _write_json(self._conditions, conditions.to_json())
            elif before != conditions:
                raise OtherEvaluation(
                    f"{self.path} holds games of {differences(before, conditions)}; {_ELSEWHERE}"
                )
            elif conditions.anonymous and (games or self.unfinished.exists()):
                raise OtherEvaluation(
                    f"{self.path} holds games of {conditions.player}, and nothing shows whether it was "
                    f"this very player: give it an attribute sha256 that identifies it, or {_ELSEWHERE}"
                )
            yield KeptGames(games, writer, self.unfinished)

    def finished(self) -> Iterator[Episode]:
        """The games in the folder, in the order in which they ended, one at a time.

        Raises `EvaluationError` where there is no evaluation, and `ReplayError` for a damaged replay file, or
        one that holds a game twice, of another seed, or without a move.
        """
        conditions, seen = self.conditions(), set[int]()
        try:
            for episode in read_replays(self.replays):
                named = f"{self.replays}: game {episode.game} of seed {episode.seed}"
                if episode.game in seen:
                    raise ReplayError(f"{named} is there twice", episode.game)
                if conditions is not None and episode.seed != conditions.seed:
                    raise ReplayError(f"{named} is among games of seed {conditions.seed}", episode.game)
                if not episode.moves:
                    raise ReplayError(f"{named} has no moves", episode.game)
                seen.add(episode.game)
                yield episode
        except (FileNotFoundError, NotADirectoryError):
            raise EvaluationError(f"{self.path} holds no evaluation: there is no {self.replays}") from None

    def write_result(self, result: dict[str, Any], report: str) -> None:
        """Replaces the result and the report, each in one step. Raises `OSError`."""
        _write_json(self.result, result)
        write_text(self.report, report)


class KeptGames:
    """The games of an open folder."""

    def __init__(self, games: list[GameSummary], writer: ReplayWriter, unfinished: Path) -> None:
        self.games = games
        """Those that earlier runs finished, in that order."""
        # A run that was killed may have finished some of those that the one before it left.
        finished = {game.game for game in games}
        self.unfinished = [
            episode
            for episode in (read_replays(unfinished) if unfinished.exists() else ())
            if episode.game not in finished
        ]
        """Those that the last run left, as they stood."""
        self._writer = writer
        self._unfinished_file = unfinished

    def append(self, episodes: list[Episode]) -> list[GameSummary]:
        """Writes finished games to the replay file at once. Raises `OSError`."""
        for episode in episodes:
            self._writer.append(episode)
        return [GameSummary.of(episode) for episode in episodes]

    def leave(self, episodes: Sequence[Episode]) -> None:
        """Keeps games as they stand for the next run, in place of those of the last. Raises `OSError`."""
        if not episodes:
            self._unfinished_file.unlink(missing_ok=True)
            return
        with whole_file(self._unfinished_file) as partial:
            partial.unlink(missing_ok=True)  # of a run that was killed: a writer would go on behind it
            with ReplayWriter(partial) as writer:
                for episode in episodes:
                    writer.append(episode)


def check_writable(folder: Path) -> None:
    """Makes the folder where it is missing. Raises `EvaluationError` when files cannot be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        error.filename = None  # of a temporary file
        raise EvaluationError(f"cannot write into {folder}: {described(error)}") from None


def existing(path: Path) -> Path:
    """The same path. Raises `EvaluationError` where there is nothing, naming what is there instead."""
    if path.exists():
        return path
    parent = path.parent
    if not parent.is_dir():
        raise EvaluationError(f"{path}: there is no folder {parent}")
    near = did_you_mean(path.name, (each.name for each in parent.iterdir()))
    raise EvaluationError(f"there is no {path}{near}")


def replays_of(path: Path) -> Path:
    """The replay file itself, or that of a result folder. Raises `EvaluationError` where there is neither."""
    return ResultFolder(path).replays if existing(path).is_dir() else path


def differences(before: Conditions, now: Conditions) -> str:
    """Such as "seed 1, not 0"; of a digest only its first digits."""

    def shown(name: str, value: Any) -> str:
        if value is None:
            return "unknown"
        return f"{value[:12]}..." if name == "sha256" else str(value)

    return ", ".join(
        f"{name} {shown(name, old)}, not {shown(name, new)}"
        + (" (the player or its files have changed)" if name == "sha256" else "")
        for (name, old), new in zip(before.to_json().items(), now.to_json().values(), strict=True)
        if old != new
    )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    # Piece by piece: as one text, a result of many games is larger than everything else in memory.
    with whole_file(path) as partial, partial.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.write("\n")

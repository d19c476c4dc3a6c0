"""The contract of a published model: its files, and the card that describes it.

A version of a model is a folder, REPOSITORY/NAME/VERSION. The export writes it; server, client, players and
benches read it. This module defines their common format.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from octofold_game.contract.structures import StructureError, structured
from octofold_game.errors import OctofoldError
from octofold_game.rules import LARGEST_EXPONENT
from octofold_game.system.files import read_regular

# The names of models and the files of a version.

MODEL_NAME = re.compile(r"\w[\w.-]{0,127}")
"""Pattern of the names of models and their folders: letters, digits and "_", and after the first character
also "." and "-"."""

DEFAULT_MODEL = "flagship"
"""The shipped model that, by default, answers calls without a model name."""

Precision = Literal["fp32", "int8", "fp16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

PlayedPrecision = Literal["fp32", "int8", "fp16", ""]
"""Precision in which games were played; empty for a player without a graph."""

CARD_FILE = "card.json"
README_FILE = "README.md"
"""Description of a version for people."""
GRAPH_FILES: dict[Precision, str] = {
    "fp32": "model.onnx",
    "int8": "model.int8.onnx",
    "fp16": "model.fp16.onnx",
}
MOVES_FILES: dict[Precision, str] = {
    "fp32": "moves.onnx",
    "int8": "moves.int8.onnx",
    "fp16": "moves.fp16.onnx",
}
TRITON_FILE = "config.pbtxt"
"""Configuration for NVIDIA Triton, which can serve the folder of a model. It lies beside the versions."""


def tensor_file(name: str) -> str:
    """Return the name of the file that contains tensor `name` of a graph, as raw little-endian float32."""
    return f"{name}.bin"


# The card.

CARD_FORMAT = 1
"""Version of the card's format. It increases when a field is removed or changes its meaning."""
PLAYER_CARD_FORMAT = 2
"""Format of a player's card. Servers that can only serve graphs reject this number."""

MAX_CARD_BYTES = 1 << 20

Rule = Literal["vote", "mean"]
"""Decision rule over the views: the move with the most votes, or with the best mean probability or value."""

# A card must not lead readers to files outside its folder.
FileName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\Z", description="a file name")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Fa-f]{64}\Z", description="a SHA-256")]
_HEXADECIMAL = re.compile("[0-9A-Fa-f]{64}")
Count = Annotated[int, msgspec.Meta(ge=0)]
Interval = tuple[float, float]
"""A 95% confidence interval: lower and upper limit."""


class ListedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a version, with its SHA-256."""

    file: FileName
    sha256: Sha256
    """SHA-256 of the file, in hexadecimal."""


class StageAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How often a precision chooses the same move as float32 on the boards from one stage of the games."""

    boards: Count
    agreement: float


class GraphFile(ListedFile, frozen=True, kw_only=True, omit_defaults=True):
    """The graph of a version in one precision."""

    tensors: dict[str, ListedFile] = {}
    """The files of tensors that are too large for the graph, by the name of the tensor."""
    moves: ListedFile | None = None
    """A faster graph with only the output `move`. It lacks the initializers that it shares with the complete
    graph; a server adds them."""
    agreement: float | None = None
    """Share of the boards on which the move is the same as in float32; None for float32 itself."""
    agreement_by_stage: dict[str, StageAgreement] = {}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Position of an array of numbers in a file."""

    offset: Count
    """Offset of the array in bytes."""
    count: Count


class CompactTablesPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Positions of the arrays of `CompactTables` (`octofold_players.ntuple`) in a float32 graph."""

    format: int
    entries: Count
    kept: Count
    arrays: dict[str, Place] = {}
    """The positions by name; format 1 has none."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Games that test whether the description of a foreign network's inputs and outputs is right."""

    games: Count = 0
    """Number of games; 0 in cards that are older than this check."""
    score: Count = 0
    """Average score with this description. The games end after some hundred moves."""
    others: dict[str, float] = {}
    """Average score with each of the other descriptions that were tried, by its name, the best first."""
    is_cut_short: bool = False
    """Whether some descriptions were tried in fewer games, because of a limit on the moves of all games."""
    problem: str | None = None
    """The suspected fault in one line; None if no other description plays clearly better."""
    warning: str | None = None
    """One-line reason to doubt the description; None if the games confirm or refute it."""


class Parity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A comparison of the graph's answers with the answers of the trained network."""

    precision: Precision
    boards: Count
    """Number of boards that were compared in one batch."""
    one_by_one: Count
    """Number of boards that were compared one at a time."""
    equal_moves: float | None = None
    """Share of the boards on which graph and network make the same move. Rounding causes the differences."""


class ServedPlayer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The player that a version contains instead of a graph; see `octofold_game.contract.searches`."""

    kind: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,63}\Z", description="a kind of player")]
    """The name of the kind's entry point; a card never names a module."""
    options: dict[str, bool | int | float | str] = {}
    """Options that differ from their defaults."""
    files: dict[str, ListedFile] = {}
    """Files that the player reads, such as tables, by the names that it expects."""


class CheckedBoards(msgspec.Struct, frozen=True, kw_only=True):
    """The boards on which reduced precisions were calibrated and measured."""

    source: str
    measured: Count
    calibration: Count


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """Share of the games that reached a tile."""

    tile: Count
    share: float
    interval: Interval


class Strength(msgspec.Struct, frozen=True, kw_only=True):
    """Strength of a version, measured by an evaluation."""

    games: Count
    seed: int
    precision: PlayedPrecision
    average: float
    average_interval: Interval | None
    median: float
    median_interval: tuple[int | float, int | float] | None = None
    best: int
    reached: tuple[Reached, ...]
    outgrown: Count = 0
    """Number of games that ended because a tile exceeded the largest one that the model knows."""
    command: str
    """The command that repeats the measurement."""


class NoWorse(msgspec.Struct, frozen=True, kw_only=True):
    """The result of games against an earlier version, from `octofold compare`."""

    than: Count
    """The number of the earlier version."""
    margin: float
    """Non-inferiority margin that the games have shown: this version's average score is lower by at most this
    share."""
    games: Count
    """Number of games of each version. The first games only determine the cap."""
    cap: Count | None
    """Cap of the scores; None if scores count in full."""
    above_cap: tuple[float, float] | None
    """Share of games with a score above the cap, for the earlier and for this version."""
    ratio: float
    """The average score of this version divided by the earlier version's average score."""
    ratio_interval: Interval
    limit_error_rate: float
    """Maximum error probability of each limit of `ratio_interval`."""
    values: str | None = None
    """The value function for luck adjustment; None without adjustment."""
    values_sha256: str | None = None
    worth: float | None = None
    """Number of games without luck adjustment that narrow the interval as much as one adjusted game."""


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """The result of another export or precision of the same checkpoint in the same games."""

    symmetries: int
    decision_rule: Rule
    precision: Precision
    games: Count
    average: float
    average_interval: Interval | None
    difference: float
    """The alternative's average score minus the average score of this version in the same games."""
    difference_interval: Interval | None
    """95% interval of the average paired difference in score."""


class Alternatives(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Scores of other exports of the same checkpoint."""

    rows: tuple[Alternative, ...]
    command: str
    """The command that repeats the measurement."""
    moves: Count | None = None
    """Number of moves after which games were stopped; None if all games were played to the end."""


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The description of a published version: its content, its origin and its strength.

    A card must have the fields without a default, and either `precisions` or `player`.
    """

    format: int
    name: str
    version: Annotated[int, msgspec.Meta(ge=1)]
    architecture: dict[str, Any] = {}
    """Kind and sizes of the network."""
    description: dict[str, Any] | None = None
    """Inputs and outputs of the network, for `octofold_export.description`; other programs may ignore it."""
    weights: Count = 0
    checkpoint_sha256: str = ""
    """SHA-256 of the trained weights, or of everything that determines a player's moves; empty if unknown."""
    temperature: float | None = None
    """Temperature of a network that values moves: a move whose value is higher by this much is e times as
    probable."""
    tie: float | None = None
    """Difference in probability below which moves tie; difference in value for a network with a
    `temperature`."""
    value_unit: str | None = None
    """Unit of the output `value`, or `values` of a player; None without that output."""
    compact_tables: CompactTablesPlaces | None = None
    decision_rule: Rule | None = None
    symmetries: Count = 0
    """Number of views of a board that the network evaluates."""
    largest_exponent: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_EXPONENT)]
    """Exponent of the largest tile that the model knows."""
    evidence: Evidence | None = None
    parity: Parity | None = None
    precisions: dict[Precision, GraphFile] = {}
    """The graph in each precision; empty in the card of a player."""
    player: ServedPlayer | None = None
    """The player; None for a version with a graph."""
    not_published: dict[str, str] = {}
    """The reason why a precision is missing, for each missing precision."""
    strength: Strength | None = msgspec.field(default_factory=lambda: None)  # in every card, even if None
    """Measured strength; None before a measurement."""
    exporter: str = ""
    """The version of octofold that wrote the files."""
    boards: CheckedBoards | None = None
    alternatives: Alternatives | None = None
    no_worse: NoWorse | None = None

    def sha256_of(self, precision: str) -> str | None:
        """Return the SHA-256 of the graph in a precision, or of the player for ""; None if it is unknown."""
        if self.player is not None:
            return self.checkpoint_sha256 or None
        return next((file.sha256 for name, file in self.precisions.items() if name == precision), None)


def short_digest(sha256: str | None) -> int:
    """Return the first eight bytes of a SHA-256 as a number, as in the answers of a server; 0 if unknown."""
    return int(sha256[:16], 16) if sha256 and _HEXADECIMAL.fullmatch(sha256) else 0


class _Versioned(msgspec.Struct):
    format: int


class CardError(OctofoldError, ValueError):
    """An error about an unreadable card. The message is one line that names the file and the field."""


def read_card(folder: Path) -> Card:
    """Read the card of the version in `folder`.

    Raises:
        CardError: the card cannot be read, or `parse_card` rejects its text.
    """
    return parse_card(card_text(folder))


def card_text(folder: Path) -> str:
    """Read the text of the card of the version in `folder`.

    Raises:
        CardError: the card is missing, not a regular file, larger than `MAX_CARD_BYTES`, or not UTF-8.
    """
    try:
        return read_regular(folder / CARD_FILE, MAX_CARD_BYTES).decode()
    except OSError as error:
        raise CardError(f"{CARD_FILE} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CardError(f"{CARD_FILE} is not UTF-8: {error}") from error


def parse_card(text: str) -> Card:
    """Parse the card whose JSON form is `text`. Unknown fields are ignored.

    Raises:
        CardError: the text is not the card of a model, or has a format that this version does not know.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CardError(f"{CARD_FILE} is not JSON: {error}") from error
    return card_of(content)


def card_of(content: Any) -> Card:
    """Convert parsed JSON to a card. Raises the errors of `parse_card`."""
    if not isinstance(content, dict):
        raise CardError(f"{CARD_FILE} is not a JSON object")
    try:
        found = structured(content, _Versioned).format  # read first, because it defines the other fields
        if found not in (CARD_FORMAT, PLAYER_CARD_FORMAT):
            raise CardError(f"{CARD_FILE}: format must be {CARD_FORMAT} or {PLAYER_CARD_FORMAT}, got {found}")
        card = structured(content, Card)
    except StructureError as error:
        raise CardError(f"{CARD_FILE}: {error}") from error
    needed, other = ("player", "precisions") if found == PLAYER_CARD_FORMAT else ("precisions", "player")
    if content.get(needed) is None:
        raise CardError(f"{CARD_FILE}: {needed} is missing")
    if getattr(card, other):
        raise CardError(f"{CARD_FILE}: a card of format {found} cannot have {other}")
    return card


def encode_card(card: Card) -> bytes:
    """Encode a card as card.json; the same card gives the same bytes."""
    return (json.dumps(msgspec.to_builtins(card), indent=2) + "\n").encode()

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
"""Valid names of models and their folders: letters, digits and "_", after the first character also "." and
"-"."""

DEFAULT_MODEL = "flagship"
"""The shipped model for playing. By default, it answers calls without a model name."""

Precision = Literal["fp32", "int8", "fp16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

PlayedPrecision = Literal["fp32", "int8", "fp16", ""]
"""Precision in which games were played; empty for players."""

CARD_FILE = "card.json"
README_FILE = "README.md"
"""The card for people."""
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
"""File beside the versions with which Triton serves the model's folder without changes."""


def tensor_file(name: str) -> str:
    """Return the name of the file with tensor `name` of a graph: little-endian float32, nothing else."""
    return f"{name}.bin"


# The card.

CARD_FORMAT = 1
"""Version of the card's format: it grows when a field is removed or changes its meaning."""
PLAYER_CARD_FORMAT = 2
"""Format of a player's card. Servers that only serve graphs reject this number."""

MAX_CARD_BYTES = 1 << 20

Rule = Literal["vote", "mean"]
"""Decision rule over the views: the move with the most votes, or with the best mean probability."""

# A card must not lead readers to files outside its folder.
FileName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\Z", description="a file name")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Fa-f]{64}\Z", description="a SHA-256")]
_HEXADECIMAL = re.compile("[0-9A-Fa-f]{64}")
Count = Annotated[int, msgspec.Meta(ge=0)]
Interval = tuple[float, float]
"""A 95% interval."""


class ListedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One of the files of a version."""

    file: FileName
    sha256: Sha256
    """SHA-256 of the file, in hexadecimal."""


class StageAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """Share of a precision's moves that equal float32's, at one stage of the games."""

    boards: Count
    agreement: float


class GraphFile(ListedFile, frozen=True, kw_only=True, omit_defaults=True):
    """The graph in one precision."""

    tensors: dict[str, ListedFile] = {}
    """Tensors too large for the graph, by name. Each has its own file."""
    moves: ListedFile | None = None
    """A faster graph that answers only `move`. Its initializers are those of the whole graph."""
    agreement: float | None = None
    """Share of moves that equal float32's, for other precisions."""
    agreement_by_stage: dict[str, StageAgreement] = {}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an array of numbers in a file."""

    offset: Count
    """Offset of the array in bytes."""
    count: Count


class CompactTablesPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Places of the arrays of `CompactTables` (`octofold_players.ntuple`) in a float32 graph."""

    format: int
    entries: Count
    kept: Count
    page_bits: Place
    entry_bits: Place
    lower_codes: Place
    upper_codes: Place
    codebook: Place


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Evidence from games for the description of a foreign network."""

    games: Count = 0
    """Number of games; 0 in cards that are older than this check."""
    score: Count = 0
    """Average score with this description. The games end after some hundred moves."""
    others: dict[str, float] = {}
    """Scores with other readings, best first."""
    is_cut_short: bool = False
    """Whether the time ran out before enough games were played."""
    problem: str | None = None
    """The fault in one line; None if no other reading plays better."""
    warning: str | None = None
    """A remark about a plausible description."""


class Parity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Comparison of the graph's answers with those of the trained network."""

    precision: Precision
    boards: Count
    """Number of boards in a batch."""
    one_by_one: Count
    equal_moves: float | None = None
    """Share of the boards on which the moves are equal. Rounding errors cause the other differences."""


class ServedPlayer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The player that a version contains instead of a graph; see `octofold_game.contract.searches`."""

    kind: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,63}\Z", description="a kind of player")]
    """The name of an entry point; a card never names a module."""
    options: dict[str, bool | int | float | str] = {}
    """Options that differ from their defaults."""
    files: dict[str, ListedFile] = {}
    """Files by name, such as tables."""


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
    """Number of games that ended with a tile above the largest that the model knows."""
    command: str
    """The command that repeats the measurement."""


class NoWorse(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the games against an earlier version, from `octofold compare`."""

    than: Count
    """Number of the earlier version."""
    margin: float
    """Largest share by which this version may be worse, as the games have shown."""
    games: Count
    """Number of games of each version. The first games only set the cap."""
    cap: Count | None
    """Cap of the scores; None if scores count in full."""
    above_cap: tuple[float, float] | None
    """The share of games above the cap, of the earlier and of this version."""
    ratio: float
    """The average of this version divided by that of the earlier version."""
    ratio_interval: Interval
    limit_error_rate: float
    """Error probability of each limit."""
    values: str | None = None
    """The value function by which the luck of the tiles was taken out; None if it was left in."""
    values_sha256: str | None = None
    worth: float | None = None
    """Number of games without this adjustment that each game is worth."""


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """Result of another export or precision of the same checkpoint in the same games."""

    symmetries: int
    decision_rule: Rule
    precision: Precision
    games: Count
    average: float
    average_interval: Interval | None
    difference: float
    """Difference of the averages: this version minus the other one."""
    difference_interval: Interval | None
    """Interval of the mean difference, from pairs of games."""


class Alternatives(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Scores of other choices at export."""

    rows: tuple[Alternative, ...]
    command: str
    """The command that repeats the measurement."""
    moves: Count | None = None
    """The games were stopped after this number of moves; None for games that were played to their ends."""


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The description of a published version: its content, its origin and its strength.

    Serving needs the fields without a default; a card may leave out the others.
    """

    format: int
    name: str
    version: Annotated[int, msgspec.Meta(ge=1)]
    architecture: dict[str, Any] = {}
    """Kind and sizes of the network."""
    description: dict[str, Any] | None = None
    """Inputs and outputs of the network, for `octofold_export.description`; other programs can ignore it."""
    weights: Count = 0
    checkpoint_sha256: str = ""
    """SHA-256 of the trained weights."""
    temperature: float | None = None
    """For a network that values moves: a value that is this much higher makes a move e times as probable."""
    tie: float | None = None
    """Moves whose values differ by less count as equal: probabilities, or values as in `temperature`."""
    value_unit: str | None = None
    """Unit of the output `value`; None without that output."""
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
    """The reasons why precisions are missing, by precision."""
    strength: Strength | None = msgspec.field(default_factory=lambda: None)  # written even if it is null
    """Measured strength; None before a measurement."""
    exporter: str = ""
    """The version of octofold that wrote the files."""
    boards: CheckedBoards | None = None
    alternatives: Alternatives | None = None
    no_worse: NoWorse | None = None

    def sha256_of(self, precision: str) -> str | None:
        """Return the SHA-256 of the graph of a precision, or of the player with ""; None if unknown."""
        if self.player is not None:
            return self.checkpoint_sha256 or None
        return next((file.sha256 for name, file in self.precisions.items() if name == precision), None)


def short_digest(sha256: str | None) -> int:
    """Return the first eight bytes of a SHA-256 as a number, as answers contain them; 0 if unknown."""
    return int(sha256[:16], 16) if sha256 and _HEXADECIMAL.fullmatch(sha256) else 0


class _Versioned(msgspec.Struct):
    format: int


class CardError(OctofoldError, ValueError):
    """A card that cannot be read; the message is one line that names the file and the field."""


def read_card(folder: Path) -> Card:
    """Read the card of the version in `folder`.

    Raises:
        CardError: the card is missing, too large, or not the card of a model.
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
        raise CardError(f"{CARD_FILE} is not JSON: {error}") from error


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
    """Return the card in parsed JSON, as `parse_card` does."""
    if not isinstance(content, dict):
        raise CardError(f"{CARD_FILE} is not a JSON object")
    try:
        found = structured(content, _Versioned).format  # other fields have a meaning only in a known format
        if found not in (CARD_FORMAT, PLAYER_CARD_FORMAT):
            raise CardError(f"{CARD_FILE}: format must be {CARD_FORMAT} or {PLAYER_CARD_FORMAT}, got {found}")
        card = structured(content, Card)
    except StructureError as error:
        raise CardError(f"{CARD_FILE}: {error}") from error
    needed, other = ("player", "precisions") if found == PLAYER_CARD_FORMAT else ("precisions", "player")
    if needed not in content:
        raise CardError(f"{CARD_FILE}: {needed} is missing")
    if getattr(card, other):
        raise CardError(f"{CARD_FILE}: a card of format {found} cannot have {other}")
    return card


def encode_card(card: Card) -> bytes:
    """Encode a card as card.json; the same card gives the same bytes."""
    return (json.dumps(msgspec.to_builtins(card), indent=2) + "\n").encode()

"""Reads a model repository: which versions there are, what their cards say, and the bytes to load.

A card is believed only after its fields have been checked, and a model file only after its SHA-256 matched
the card: the bytes that were hashed are the bytes that are loaded. Nothing is mapped: a file that is cut off
while it is mapped ends the process with SIGBUS. Knows nothing about onnxruntime.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.files import open_regular, read_regular
from octofold_game.rules import LARGEST_EXPONENT
from octofold_proto.errors import ModelError

__all__ = [
    "Card",
    "ModelError",
    "PrecisionFile",
    "VersionFolder",
    "choose_precision",
    "cpu_has_vnni",
    "find_versions",
    "fingerprint",
    "read_card",
    "read_model",
    "read_tensors",
    "versions_by_name",
]

CARD_FORMAT = 1
PRECISIONS = ("fp32", "int8", "fp16")

# As in a version policy. It goes into replies and metrics, which are UTF-8: a folder's name need not be.
MODEL_NAME = re.compile(r"\w[\w.-]*")

# A card must not make the server read files outside of its folder, nor put into a reply what has no UTF-8.
FILE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
SHA256 = re.compile("[0-9A-Fa-f]{64}")

MAX_CARD_BYTES = 1 << 20
MAX_MODEL_BYTES = (1 << 31) - 1
"""No ONNX graph is larger: Protobuf has no larger messages."""
MAX_TENSOR_BYTES = 1 << 33
PIECE_BYTES = 1 << 22
"""What is read of a tensor before it is hashed: little enough to be in the CPU's cache still."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VersionFolder:
    """`path` is REPOSITORY/`name`/`version`."""

    name: str
    version: int
    path: Path


@dataclass(frozen=True)
class ListedFile:
    """One of the files of a version, and the SHA-256 in lower-case hexadecimal that it must have."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class PrecisionFile(ListedFile):
    """A model file, and by their names the tensors that are too large for it: a file each."""

    tensors: Mapping[str, ListedFile] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    """What serving needs of a card.json, and its whole text for those who want more."""

    largest_exponent: int
    precisions: Mapping[str, PrecisionFile]
    text: str


def find_versions(repository: Path) -> list[VersionFolder]:
    """Every version in the repository, sorted by name and version.

    A version is a folder whose name is a positive integer; anything else, such as a version that is being
    published under a temporary name, is passed over. So is a folder that cannot be read, such as a mounted
    volume's lost+found, or whose name is of more than letters, digits, ".", "-" and "_": the log tells why.

    Raises:
        ModelError: the repository is not a folder that can be read.
    """
    versions, passed_over = _scan(repository)
    for folder, why in passed_over.items():
        _log.warning("%r is passed over: %s", str(folder), why)
    return sorted(versions, key=lambda version: (version.name, version.version))


def versions_by_name(repository: Path) -> dict[str, list[VersionFolder]]:
    """The same by the names of the models. Raises as `find_versions`."""
    by_name: dict[str, list[VersionFolder]] = {}
    for folder in find_versions(repository):
        by_name.setdefault(folder.name, []).append(folder)
    return by_name


def fingerprint(repository: Path) -> frozenset[tuple[str, int, int, int]]:
    """What changes when a version is published, copied in file by file, replaced or taken away: path, inode,
    size and time of every file of every version.

    Raises:
        ModelError: as `find_versions`.
    """
    marks = set()
    versions, _ = _scan(repository)
    for version in versions:
        marks.add((str(version.path), 0, 0, 0))
        with suppress(OSError):  # what goes away meanwhile is missing, and that is its mark
            for file in version.path.iterdir():
                status = file.stat()
                marks.add((str(file), status.st_ino, status.st_size, status.st_mtime_ns))
    return frozenset(marks)


def read_card(folder: VersionFolder) -> Card:
    """The card of a version.

    Raises:
        ModelError: it is missing, is not what a card should be, or belongs to another model or version.
    """
    try:
        text = read_regular(folder.path / "card.json", MAX_CARD_BYTES).decode()
        card = json.loads(text)
    except OSError as error:
        raise ModelError(f"card.json cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"card.json is not JSON: {error}") from error
    if not isinstance(card, dict):
        raise ModelError("card.json is not a JSON object")
    _require(card.get("format") == CARD_FORMAT, f"format is {card.get('format')!r}, not {CARD_FORMAT}")
    _require(card.get("name") == folder.name, f"name is {card.get('name')!r}, not {folder.name!r}")
    _require(
        card.get("version") == folder.version, f"version is {card.get('version')!r}, not {folder.version}"
    )
    largest = card.get("largest_exponent")
    if type(largest) is not int or not 1 <= largest <= LARGEST_EXPONENT:
        raise ModelError(
            f"card.json: largest_exponent is {largest!r}, not an integer from 1 to {LARGEST_EXPONENT}"
        )
    precisions = card.get("precisions")
    if not isinstance(precisions, dict):
        raise ModelError("card.json: precisions is not an object")
    files = {name: _precision_file(folder.path, name, entry) for name, entry in precisions.items()}
    return Card(largest, files, text)


def choose_precision(card: Card, wanted: str, *, device: str, vnni: bool) -> str:
    """The precision to serve: `wanted`, or for "auto" the fastest one that the card offers for the device.

    Raises:
        ModelError: the card does not offer it.
    """
    preferred = wanted
    if wanted == "auto":
        fastest = "fp16" if device == "cuda" else "int8" if vnni else "fp32"
        preferred = fastest if fastest in card.precisions else "fp32"
    if preferred not in card.precisions:
        raise ModelError(f"the card offers {', '.join(card.precisions)}, not {preferred}")
    return preferred


def read_model(file: PrecisionFile) -> bytes:
    """The model file's bytes.

    Raises:
        ModelError: it cannot be read, or its SHA-256 is not the card's.
    """
    try:
        model = read_regular(file.path, MAX_MODEL_BYTES)
    except OSError as error:
        raise ModelError(f"{file.path.name} cannot be read: {error.strerror}") from error
    _check_digest(file, hashlib.sha256(model).hexdigest())
    return model


def read_tensors(file: PrecisionFile) -> dict[str, NDArray[np.float32]]:
    """The tensors that the model file refers to: vectors of little-endian float32, in memory of our own.

    onnxruntime copies them once more for every session. A version is loaded with twice the size of its
    tensors, and serves with once their size.

    Raises:
        ModelError: one cannot be read, or its SHA-256 is not the card's.
        MemoryError: they do not fit into memory.
    """
    return {name: _read_tensor(listed) for name, listed in file.tensors.items()}


def cpu_has_vnni(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the CPU multiplies int8 in one instruction. False where Linux's cpuinfo does not say so."""
    try:
        text = cpuinfo.read_text(encoding="utf-8")
    except OSError:
        return False
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    return "avx512_vnni" in flags or "avx_vnni" in flags


def _scan(repository: Path) -> tuple[list[VersionFolder], dict[Path, str]]:
    """Every version, and why which folders are passed over."""
    versions: list[VersionFolder] = []
    passed_over = {}
    try:
        folders = list(repository.iterdir())
    except OSError as error:
        hint = ""
        if isinstance(error, FileNotFoundError):
            hint = "; name one with --models (a clone of Octofold has models/, octofold-export makes others)"
        raise ModelError(f"cannot read the model repository {repository}: {error.strerror}{hint}") from error
    for folder in folders:
        try:
            found = _versions_in(folder)
        except OSError as error:
            passed_over[folder] = error.strerror or str(error)
            continue
        if not found or MODEL_NAME.fullmatch(folder.name):
            versions += found
        else:
            passed_over[folder] = f"{folder.name!r} is not the name of a model"
    return versions, passed_over


def _versions_in(folder: Path) -> list[VersionFolder]:
    if not folder.is_dir() or folder.name.startswith("."):
        return []
    return [
        VersionFolder(folder.name, int(version.name), version)
        for version in folder.iterdir()
        if version.is_dir() and _is_version(version.name)
    ]


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit() and not name.startswith("0")


def _precision_file(folder: Path, name: str, entry: Any) -> PrecisionFile:
    _require(name in PRECISIONS, f"precisions has {name!r}, which is none of {', '.join(PRECISIONS)}")
    where = f"precisions.{name}"
    model = _listed_file(folder, where, entry)
    tensors = entry.get("tensors", {})
    _require(isinstance(tensors, dict), f"{where}.tensors is not an object")
    files = {key: _listed_file(folder, f"{where}.tensors[{key!r}]", value) for key, value in tensors.items()}
    return PrecisionFile(model.path, model.sha256, files)


def _listed_file(folder: Path, where: str, entry: Any) -> ListedFile:
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    file, sha256 = fields.get("file", ""), fields.get("sha256", "")
    _require(_is_text(file, FILE_NAME), f"{where}.file is not a file name")
    _require(_is_text(sha256, SHA256), f"{where}.sha256 is not a SHA-256")
    return ListedFile(folder / file, sha256.lower())


def _read_tensor(file: ListedFile) -> NDArray[np.float32]:
    """Every piece is hashed where it was read to: what becomes of the file afterwards does not matter."""
    digest = hashlib.sha256()
    try:
        with open_regular(file.path, MAX_TENSOR_BYTES) as content:
            size = os.fstat(content.fileno()).st_size
            if not size or size % 4:
                raise ModelError(f"{file.path.name} is not a file of float32: it has {size} bytes")
            tensor = np.empty(size // 4, "<f4")
            memory = tensor.data.cast("B")
            for start in range(0, size, PIECE_BYTES):
                piece = memory[start : start + PIECE_BYTES]
                if content.readinto(piece) < len(piece):
                    raise ModelError(f"{file.path.name} became shorter while it was read")
                digest.update(piece)
    except OSError as error:
        raise ModelError(f"{file.path.name} cannot be read: {error.strerror}") from error
    _check_digest(file, digest.hexdigest())
    return tensor


def _check_digest(file: ListedFile, digest: str) -> None:
    if digest != file.sha256:
        raise ModelError(
            f"{file.path.name} is not the file that the card describes: its SHA-256 is {digest}, "
            f"the card says {file.sha256}"
        )


def _is_text(value: Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ModelError(f"card.json: {otherwise}")

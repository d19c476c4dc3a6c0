"""Reads a model repository: its versions, their cards, and the bytes of their files.

A card is used only after its fields are checked, and a model file only if its SHA-256 matches the card. The
hashed bytes are the loaded bytes. Files of networks are not mapped into memory, because truncating a mapped
file ends the process with SIGBUS. Files of players are mapped (`loading.map_files`).
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import (
    CARD_FILE,
    MODEL_NAME,
    Card,
    CardError,
    GraphFile,
    ListedFile,
    card_text,
    parse_card,
)
from octofold_game.system.files import open_regular, read_regular
from octofold_proto.errors import ModelError

MAX_MODEL_BYTES = (1 << 31) - 1
"""Maximum size of an ONNX graph in bytes, which is the limit of Protobuf messages."""
MAX_TENSOR_BYTES = 1 << 33
PIECE_BYTES = 1 << 22
"""Number of bytes of a tensor in one read: few enough to be hashed while they are in the CPU's cache."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VersionFolder:
    """The folder of a model version. Its `path` is REPOSITORY/`name`/`version`."""

    name: str
    version: int
    path: Path


def find_versions(repository: Path) -> list[VersionFolder]:
    """Return every version in the repository, sorted by name and version.

    A version is a folder whose name is a positive integer. Other folders in the folder of a model are
    ignored, because versions that are being published have temporary names. A folder of a model is also
    ignored, and the reason is logged, if the folder cannot be read (such as a volume's lost+found) or its
    name is not a `MODEL_NAME`.

    Raises:
        ModelError: the repository is not a folder that can be read.
    """
    versions, ignored = _scan(repository)
    for folder, why in ignored.items():
        _log.warning("ignoring %r: %s", str(folder), why)
    return sorted(versions, key=lambda version: (version.name, version.version))


def versions_by_name(repository: Path) -> dict[str, list[VersionFolder]]:
    """Return the versions in the repository by the name of their model.

    Raises:
        ModelError: the repository cannot be read.
    """
    by_name: dict[str, list[VersionFolder]] = {}
    for folder in find_versions(repository):
        by_name.setdefault(folder.name, []).append(folder)
    return by_name


def fingerprint(repository: Path) -> frozenset[tuple[str, int, int, int]]:
    """Return a value that changes when a version is added, replaced, removed or becomes readable.

    The value contains path, size, time of the last write and mode of every file. It contains no inode
    numbers, because some network mounts give the same file a new number every time.

    Raises:
        ModelError: the repository cannot be read.
    """
    marks = set()
    versions, _ = _scan(repository)
    for version in versions:
        marks.add((str(version.path), 0, 0, 0))
        with suppress(OSError):  # the folder is being removed
            for file in version.path.iterdir():
                with suppress(OSError):  # the file is being removed, or is a link to nothing
                    now = file.stat()
                    marks.add((str(file), now.st_size, now.st_mtime_ns, now.st_mode))
    return frozenset(marks)


def read_card(folder: VersionFolder) -> tuple[Card, str]:
    """Return the card of a version, and the card's text with all fields.

    Raises:
        ModelError: the card is missing or invalid, or belongs to another model or version.
    """
    try:
        text = card_text(folder.path)
        card = parse_card(text)
    except CardError as error:
        raise ModelError(str(error)) from error
    for field, value, wanted in (("name", card.name, folder.name), ("version", card.version, folder.version)):
        if value != wanted:
            raise ModelError(f"{CARD_FILE}: {field} must be {wanted!r}, as in the path, got {value!r}")
    return card, text


def read_model(folder: Path, file: ListedFile) -> bytes:
    """Return the bytes of a graph file in the folder of a version.

    Raises:
        ModelError: the file cannot be read, or its SHA-256 differs from the card.
    """
    try:
        model = read_regular(folder / file.file, MAX_MODEL_BYTES)
    except OSError as error:
        raise ModelError(f"{file.file} cannot be read: {error.strerror}") from error
    check_digest(file, hashlib.sha256(model).hexdigest())
    return model


def read_tensors(folder: Path, file: GraphFile) -> dict[str, NDArray[np.float32]]:
    """Read the tensors that a model file refers to: vectors of little-endian float32, by name.

    onnxruntime copies the tensors for every session. They need twice their size in memory while a version is
    being loaded, and once their size afterwards.

    Raises:
        ModelError: a file cannot be read, has no float32 values, or differs from the card's SHA-256.
        MemoryError: the tensors do not fit into memory.
    """
    return {name: _read_tensor(folder, listed) for name, listed in file.tensors.items()}


def _scan(repository: Path) -> tuple[list[VersionFolder], dict[Path, str]]:
    """Return every version, and the ignored folders, each with the reason."""
    versions: list[VersionFolder] = []
    ignored = {}
    try:
        folders = list(repository.iterdir())
    except OSError as error:
        hint = ""
        if isinstance(error, FileNotFoundError):
            hint = "; set --models (a clone of Octofold has models/, and octofold-export makes a repository)"
        raise ModelError(f"cannot read the model repository {repository}: {error.strerror}{hint}") from error
    for folder in folders:
        try:
            versions_of_model = _versions_in(folder)
        except OSError as error:
            ignored[folder] = error.strerror or str(error)
            continue
        # The name becomes part of replies and metrics, which are UTF-8. A name on disk may not be UTF-8.
        if not versions_of_model or MODEL_NAME.fullmatch(folder.name):
            versions += versions_of_model
        else:
            ignored[folder] = f"{folder.name!r} is not a valid model name"
    return versions, ignored


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


def _read_tensor(folder: Path, file: ListedFile) -> NDArray[np.float32]:
    """Read a tensor, and hash the bytes in memory, so that later changes of the file do not matter."""
    digest = hashlib.sha256()
    try:
        with open_regular(folder / file.file, MAX_TENSOR_BYTES) as content:
            size = os.fstat(content.fileno()).st_size
            if not size or size % 4:
                raise ModelError(f"{file.file} must contain float32 values of 4 bytes each, got {size} bytes")
            tensor = np.empty(size // 4, "<f4")
            memory = tensor.data.cast("B")
            for start in range(0, size, PIECE_BYTES):
                piece = memory[start : start + PIECE_BYTES]
                if content.readinto(piece) < len(piece):
                    raise ModelError(f"{file.file} became shorter while it was read")
                digest.update(piece)
    except OSError as error:
        raise ModelError(f"{file.file} cannot be read: {error.strerror}") from error
    check_digest(file, digest.hexdigest())
    return tensor


def check_digest(file: ListedFile, digest: str) -> None:
    """Raise ModelError if a file does not have the SHA-256 that its card lists."""
    if digest != file.sha256.lower():
        raise ModelError(
            f"{file.file} does not match the card: its SHA-256 must be {file.sha256}, got {digest}"
        )

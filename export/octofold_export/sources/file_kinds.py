"""Recognizes the kind of a network's file by its content, because the name may be arbitrary."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from octofold_game.commands.suggestions import similar

from octofold_export.errors import ExportError

MOST_BYTES = 2**31 - 2**24
"""Maximum size of a network's weights in bytes, because an ONNX file must be smaller than 2 GiB."""
SB3_FILES = ("policy.pth", "policy.pt")
"""Possible names of the weights inside a file of Stable-Baselines3."""
_LONGEST_HEADER = 100_000_000
"""Maximum size of the header of a safetensors file, in bytes."""
_WEIGHTS = "; it seems to contain only weights: use --module package.module:callable with --weights"
_ADVICE = {
    "TorchScript": "; it is a TorchScript program: use --torchscript",
    "exported program": "; it is an exported program: convert it to ONNX with "
    "torch.onnx.export(torch.export.load(FILE), dynamo=True).save('net.onnx')",
    "ONNX": "; it is an ONNX file: use --onnx",
    "Keras": "; it is a Keras file; docs/export.md has the commands that convert it",
    "SB3": "; it is a model of Stable-Baselines3: use --sb3",
    "torch": _WEIGHTS,
    "safetensors": _WEIGHTS,
    "NumPy": "; it is a NumPy file: save a dictionary of the tensors by name with torch.save",
    "zip": "; it is a zip file of an unknown kind",
    "Git LFS": "; it is a Git LFS pointer: fetch the file with `git lfs pull`",
}
_FIELDS_OF_ONNX = b"\x12\x1a\x22\x28\x32\x3a\x42"
"""Protobuf tags of the fields that may come second in an ONNX file, after the version."""


def check_size(file: Path, size: int | None = None) -> None:
    """Raise `ExportError` if the weights in a file are too large for a published model.

    `size` is the size of the weights in bytes; None for the size of the file, which must then exist.
    """
    try:
        size = file.stat().st_size if size is None else size
    except OSError as error:
        meant = similar(file) if isinstance(error, FileNotFoundError) else ""
        raise ExportError(f"{file}: {error.strerror}{meant}") from error
    if size > MOST_BYTES:
        raise ExportError(f"{file}: the weights must take at most {MOST_BYTES:,} bytes, got {size:,}")


def kind_of(content: bytes) -> str:
    """Return the kind of a file by its content.

    The kind is a key of `_ADVICE`, or empty if it is unknown or the file is damaged.
    """
    if content[:8] == b"\x89HDF\r\n\x1a\n":
        return "Keras"
    if content[8:9] == b"{" and 2 <= int.from_bytes(content[:8], "little") <= _LONGEST_HEADER:
        return "safetensors"
    if content[:2] == b"PK":
        return _kind_of_zip(content)
    if len(content) > 2 and content[0] == 8 and content[1] < 64 and content[2] in _FIELDS_OF_ONNX:
        return "ONNX"
    if content[:6] == b"\x93NUMPY":
        return "NumPy"
    if content.startswith(b"version https://git-lfs"):
        return "Git LFS"
    return "torch" if content[:1] == b"\x80" else ""


def advice(content: bytes) -> str:
    """Return advice about a file that was given to the wrong flag; empty if its kind is unknown."""
    return _ADVICE.get(kind_of(content), "")


def _kind_of_zip(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return ""
    if any(name in names for name in SB3_FILES):
        return "SB3"
    if "config.json" in names and any(name.endswith(".h5") for name in names):
        return "Keras"
    if any(name.endswith("/constants.pkl") for name in names):
        return "TorchScript"
    if any("archive_format" in name or "serialized_exported_program" in name for name in names):
        return "exported program"
    if any(name.endswith("data.pkl") for name in names):
        return "torch"
    return "NumPy" if names and all(name.endswith(".npy") for name in names) else "zip"

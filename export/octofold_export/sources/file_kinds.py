"""Recognizes the kind of a network's file by its content, because its name may be arbitrary."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from octofold_game.commands.suggestions import similar

from octofold_export.errors import ExportError

MOST_BYTES = 2**31 - 2**24
"""Maximum size of a network's weights; a model file must be smaller than 2 GiB."""
SB3_FILES = ("policy.pth", "policy.pt")
"""Names of the weights inside a file of Stable-Baselines3."""
_LONGEST_HEADER = 100_000_000  # of safetensors
_WEIGHTS = "; it seems to hold weights alone: use --module package.module:callable with --weights"
_ADVICE = {
    "TorchScript": "; it is a TorchScript program: use --torchscript",
    "exported program": "; it is an exported program, which torch.onnx.export(torch.export.load(FILE), "
    "dynamo=True).save('net.onnx') makes an ONNX file",
    "ONNX": "; it is an ONNX file: use --onnx",
    "Keras": "; it is a Keras file; docs/export.md has the commands that convert it",
    "SB3": "; it is a model of Stable-Baselines3: use --sb3",
    "torch": _WEIGHTS,
    "safetensors": _WEIGHTS,
    "NumPy": "; it is a file of NumPy: save the tensors by their names with torch.save",
    "zip": "; it is a zip file of another kind",
    "Git LFS": "; it only points to the file, which `git lfs pull` fetches",
}
_FIELDS_OF_ONNX = b"\x12\x1a\x22\x28\x32\x3a\x42"
"""Protobuf keys of the fields that may follow the first field of an ONNX file, its version."""


def check_size(file: Path, size: int | None = None) -> None:
    """Check the size of a file, or another `size` of its content.

    Raises:
        ExportError: the file is missing, or a published model cannot contain this much.
    """
    try:
        size = file.stat().st_size if size is None else size
    except OSError as error:
        meant = similar(file) if isinstance(error, FileNotFoundError) else ""
        raise ExportError(f"{file}: {error.strerror}{meant}") from error
    if size > MOST_BYTES:
        raise ExportError(f"{file}: the weights must take less than 2 GiB, got {size / 1e9:.1f} GB")


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
    """Return advice about a file that was given to the wrong flag, or empty if its kind is unknown."""
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

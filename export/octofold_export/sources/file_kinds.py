"""Tells what a network's file is by its content, because people name files as they like."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from octofold_export.errors import ExportError

MOST_BYTES = 2**31 - 2**24
"""Maximum size of a network's weights; a model file must be smaller than 2 GiB."""
SB3_FILES = ("policy.pth", "policy.pt")
"""The weights in a file of Stable-Baselines3."""


def check_size(file: Path, size: int) -> None:
    """Check the size.

    Raises:
        ExportError: a published model cannot contain this much.
    """
    if size > MOST_BYTES:
        raise ExportError(f"{file}: {size / 1e9:.1f} GB of weights; a model file holds less than 2 GiB")


def kind_of(content: bytes) -> str:
    """What a file is by its content.

    One of `Keras`, `safetensors`, `SB3`, `TorchScript`, `exported program`, `torch`, `zip` and `ONNX`, or
    empty if it is unknown.
    """
    if content[:8] == b"\x89HDF\r\n\x1a\n":
        return "Keras"
    if content[8:9] == b"{" and 2 <= int.from_bytes(content[:8], "little") <= len(content) - 8:
        return "safetensors"
    if content[:2] == b"PK":
        return _kind_of_zip(content)
    if content[:1] == b"\x08" and (b"onnx" in content[:4096] or b"pytorch" in content[:4096]):
        return "ONNX"
    return "torch" if content[:1] == b"\x80" else ""


def _kind_of_zip(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return "torch"  # damaged, which torch says better
    if any(name in names for name in SB3_FILES):
        return "SB3"
    if "config.json" in names and any(name.endswith(".h5") for name in names):
        return "Keras"
    if any(name.endswith("/constants.pkl") for name in names):
        return "TorchScript"
    if any("archive_format" in name or "serialized_exported_program" in name for name in names):
        return "exported program"
    return "torch" if any(name.endswith("data.pkl") for name in names) else "zip"

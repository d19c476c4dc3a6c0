"""What `octofold-export` does once its flags are checked: publish a version, or say more about one."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from octofold_game.commands.extras import install_command
from octofold_game.system.files import read_regular

from octofold_export.description.hints import Hints, merged, read_hints
from octofold_export.errors import ExportError, NotShown
from octofold_export.export import export
from octofold_export.extension import extend
from octofold_export.planning import ExportOptions
from octofold_export.publishing.contest import Contest
from octofold_export.publishing.signing import sign_published
from octofold_export.publishing.strength import record_strength
from octofold_export.sources.checkpoint import from_checkpoint
from octofold_export.sources.compact_ntuple import from_ntuple_compactly
from octofold_export.sources.described import (
    from_exported_program,
    from_module,
    from_onnx,
    from_sb3,
    from_torchscript,
)
from octofold_export.sources.ntuple import from_ntuple
from octofold_export.sources.source import Source

if TYPE_CHECKING:  # an optional extra
    from octofold_game.contract.signatures import SigningKey

PASSWORD_VARIABLE = "OCTOFOLD_SIGN_PASSWORD"
MAX_PASSWORD_BYTES = 1024


def run(parsed: argparse.Namespace) -> int:
    """Do what the flags ask for, and return the exit code of `octofold_export.cli.main`.

    Standard output has the folder alone. What the user's code and libraries print goes to standard error.
    """
    with redirect_stdout(sys.stderr):
        code, folder = _run(parsed)
    if folder is not None:
        print(folder)
    return code


def _run(parsed: argparse.Namespace) -> tuple[int, Path | None]:
    """The exit code, and the folder of the version if there is one."""
    try:
        key = _signing_key(parsed)
        if parsed.record_strength is not None:
            folder = record_strength(parsed.models, parsed.name, parsed.version, parsed.record_strength, key)
        elif parsed.only_signs:
            assert key is not None
            folder = parsed.models / parsed.name / str(parsed.version)
            sign_published(folder, key)
        elif parsed.extend:
            folder = extend(_source(parsed), _options(parsed, key), _report)
        else:
            folder = export(_source(parsed), _options(parsed, key), _report)
    except KeyboardInterrupt:
        print("octofold-export: interrupted; nothing was published", file=sys.stderr)
        return 130, None
    except ExportError as error:
        print(f"octofold-export: {error}", file=sys.stderr)
        return 3 if isinstance(error, NotShown) else 1, None
    except (OSError, MemoryError) as error:  # such as a full folder for temporary files
        print(f"octofold-export: {error or 'out of memory'}; nothing was published", file=sys.stderr)
        return 1, None
    return 0, folder


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _source(parsed: argparse.Namespace) -> Callable[[], Source]:
    """Loads what the flags name. Reads the description at once: a wrong one is found before any work."""
    if parsed.ntuple is not None and parsed.max_megabytes is not None:
        return partial(from_ntuple_compactly, parsed.ntuple, int(parsed.max_megabytes * 1e6))
    if parsed.ntuple is not None:
        return partial(from_ntuple, parsed.ntuple)
    if parsed.checkpoint is not None:
        return partial(from_checkpoint, parsed.checkpoint)
    if parsed.module is not None:
        hints = _hints(parsed, parsed.weights)
        return partial(from_module, parsed.module, parsed.weights, hints, parsed.state, parsed.encoder)
    if parsed.torchscript is not None:
        return partial(from_torchscript, parsed.torchscript, _hints(parsed, parsed.torchscript))
    if parsed.exported_program is not None:
        file = parsed.exported_program
        return partial(from_exported_program, file, _hints(parsed, file))
    if parsed.sb3 is not None:
        return partial(from_sb3, parsed.sb3, _hints(parsed, parsed.sb3))
    return partial(from_onnx, parsed.onnx, _hints(parsed, parsed.onnx))


def _hints(parsed: argparse.Namespace, file: Path | None) -> Hints:
    """The flags, over the TOML file that they name, or that lies beside the network's file."""
    flags: Hints = parsed.description_flags
    if parsed.description is not None:
        return merged(flags, read_hints(parsed.description))
    if file is None or not file.name:
        return flags
    beside = file.with_suffix(".toml")
    return merged(flags, read_hints(beside)) if beside.exists() else flags


def _signing_key(parsed: argparse.Namespace) -> SigningKey | None:
    """The key of --sign. It is read at once: a wrong one is found before any work.

    Raises:
        ExportError: it cannot be read, or the extra for signing is missing.
    """
    if parsed.sign is None:
        return None
    try:
        from octofold_game.contract.signatures import PasswordMissing, SignatureError, SigningKey
    except ModuleNotFoundError as error:
        remedy = f"run {install_command('signing')}"
        raise ExportError(f"--sign: {error.name} is not installed; {remedy}") from None
    password = os.environ.get(PASSWORD_VARIABLE, "").encode() or None
    if (file := parsed.sign_password_file) is not None:
        try:
            password = read_regular(file, MAX_PASSWORD_BYTES).rstrip(b"\r\n") or None
        except OSError as error:
            raise ExportError(f"--sign-password-file: {file} cannot be read: {error.strerror}") from error
    try:
        return SigningKey(parsed.sign, password)
    except PasswordMissing as error:
        raise ExportError(f"--sign: {error}; use --sign-password-file or {PASSWORD_VARIABLE}") from error
    except SignatureError as error:
        raise ExportError(f"--sign: {error}") from error


def _options(parsed: argparse.Namespace, key: SigningKey | None) -> ExportOptions:
    return ExportOptions(
        name=parsed.name,
        models=parsed.models,
        version=parsed.version,
        rule=parsed.rule,
        symmetries=parsed.symmetries,
        precisions=parsed.precisions,
        with_views=parsed.views_output,
        boards=parsed.boards,
        judge=parsed.judge,
        accept=parsed.accept,
        contest=None if parsed.no_worse_than is None else Contest(parsed.no_worse_than, parsed.limit),
        sign=key,
    )

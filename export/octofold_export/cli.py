"""The command `octofold-export`: publishes a trained network as a model, or extends a published model.

torch and onnx are imported after the flags are checked, and only if they are needed. So `--help` is quick,
and works without them.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from octofold_game.commands.command_line import Parser
from octofold_game.commands.extras import install_command
from octofold_game.commands.options import flag_of, read
from octofold_game.commands.signals import exit_by_signal, handling
from octofold_game.errors import OctofoldError

from octofold_export.description.hints import Hints, hints_from_flags, merged, read_hints
from octofold_export.errors import ExportError, NeedsFlags, StrengthNotShown, WrongUsage
from octofold_export.flags import AUTO, DESCRIPTION, Flags
from octofold_export.publishing.repository import check_name

if TYPE_CHECKING:  # torch and onnx
    from octofold_game.contract.model import Evidence

    from octofold_export.description.description import Description
    from octofold_export.sources.described_network import TrainedNetwork
    from octofold_export.sources.source import Source

_SOURCES = ("checkpoint", "ntuple", "module", "torchscript", "onnx", "sb3", "player")
_NEW_VERSION_FLAGS = ("symmetries", "rule", "views_output", "accept", "no_worse_than")
"""Flags that apply only to a new version. --extend refuses them, because it keeps the published graphs."""
_EXPORT_FLAGS = ("extend", "precisions", "boards")
"""Flags that apply to a new version and to --extend. --record-strength refuses them."""
_NETWORK_FLAGS = ("encoder", *_EXPORT_FLAGS, *_NEW_VERSION_FLAGS)
"""Flags that apply only to networks. --player refuses them."""
_NEEDS = (
    ("record_strength", "version"),
    ("extend", "version"),
    ("state", "weights"),
    ("max_megabytes", "ntuple"),
)
_EPILOG = """\
The published graph takes raw boards and returns legal moves in any ONNX runtime. It is published only if it
answers like the network itself, and if turning the board turns the answer. An int8 or fp16 graph must also
choose the same move as fp32 on at least 99% of the boards. docs/export.md describes all kinds of networks and
all fields of a description.
"""


class _Parser(Parser):
    def _refuse(self, unknown: Iterable[str]) -> NoReturn:
        """Refuse words that are not options. For an existing path, name the flags that take a path."""
        for word in unknown:
            if not word.startswith("-") and Path(word).exists():
                self.fail(
                    f"{word}: put the flag for this kind of file before it: --onnx, --torchscript, "
                    "--sb3, --checkpoint, --ntuple, or --weights with --module"
                )
        super()._refuse(unknown)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    The code is 0 for success, 1 for a failure, 2 for a wrong --player, 3 if games did not show that the
    version is strong enough, and 130 after Ctrl-C. Wrong flags raise `SystemExit` with code 2, SIGHUP with
    129 and SIGTERM with 143. Standard output contains only the folder of the version. Output of the user's
    code and of libraries goes to standard error.
    """
    flags, hints = parse(arguments)
    code, folder = 0, None
    with redirect_stdout(sys.stderr), handling(exit_by_signal, signal.SIGTERM, signal.SIGHUP):
        try:
            folder = _run(flags, hints)
        except KeyboardInterrupt:
            code = _fail("interrupted; nothing was published", 130)
        except NeedsFlags as error:
            code = _fail(str(error))
            if error.flags:
                _report(_with_flags(sys.argv[1:] if arguments is None else arguments, error.flags))
        except ModuleNotFoundError as error:
            extra = "export" if flags.player is None else "players"
            code = _fail(f"{error.name} is not installed; run {install_command(extra)}")
        except OctofoldError as error:
            code = _fail(
                str(error),
                3 if isinstance(error, StrengthNotShown) else 2 if isinstance(error, WrongUsage) else 1,
            )
        except (OSError, MemoryError) as error:  # for example, the disk for temporary files is full
            code = _fail(f"{str(error) or 'out of memory'}; nothing was published")
    if folder is not None:
        print(folder)
    return code


def parse(arguments: Sequence[str] | None = None) -> tuple[Flags, Hints]:
    """Read and check the flags. Return the flags, and their description of the network as hints.

    Raises:
        SystemExit: with code 2 after one line on standard error if the flags are wrong; with 0 after --help.
    """
    parser = _Parser(
        prog="octofold-export",
        usage="octofold-export --SOURCE ... --name NAME [options]",
        description="Publish a trained network as a model that plays 2048 from raw boards.",
        epilog=_EPILOG,
    )
    flags = read(Flags, parser, arguments)
    for name in ("weights", "encoder"):
        if (value := getattr(flags, name)) is not None and flags.module is None:
            parser.fail(f"{flag_of(name)} {value} needs --module package.module:callable")
    if not any(getattr(flags, task) is not None for task in (*_SOURCES, "record_strength")):
        sources = ", ".join(map(flag_of, _SOURCES))
        parser.fail(f"nothing to export: use one of {sources} (or --record-strength)")
    if flags.name is None:
        parser.fail("--name is required; it is the name of the model")
    for name, needed in _NEEDS:
        if getattr(flags, name) and getattr(flags, needed) is None:
            parser.fail(f"{flag_of(name)} needs {flag_of(needed)}")
    if flags.record_strength is not None:
        unused = (*_EXPORT_FLAGS, *_NEW_VERSION_FLAGS)
        _refuse_flags(parser, flags, unused, "applies only to an export; --record-strength exports nothing")
    if flags.extend:
        _refuse_flags(
            parser, flags, _NEW_VERSION_FLAGS, "applies only to a new version; --extend publishes none"
        )
    if flags.player is not None:
        _refuse_flags(parser, flags, _NETWORK_FLAGS, "applies only to networks, not to --player")
    if flags.checkpoint is not None and flags.checkpoint.is_file():
        parser.fail(
            f"--checkpoint must be a folder of octofold-train, got the file {flags.checkpoint}; "
            "for a file of torch.save, use --weights with --module"
        )
    if flags.symmetries == AUTO and (flags.checkpoint is not None or flags.ntuple is not None):
        parser.fail("--symmetries auto does not apply to --checkpoint and --ntuple; their default is 8")
    fields = {path: getattr(flags, name) for name, path in DESCRIPTION.items()}
    fields = {path: value for path, value in fields.items() if value is not None}
    for name in ("checkpoint", "ntuple", "player"):
        if (fields or flags.description is not None) and getattr(flags, name) is not None:
            parser.fail(f"{flag_of(name)} needs no description: remove the flags that describe the network")
    try:
        check_name(flags.name)
        return flags, hints_from_flags(fields)
    except ExportError as error:
        parser.fail(str(error))


def _refuse_flags(parser: Parser, flags: Flags, names: Sequence[str], reason: str) -> None:
    """Exit if a flag in `names` is set, because the selected task would ignore the flag."""
    for name in names:
        if getattr(flags, name) not in (None, False):
            parser.fail(f"{flag_of(name)} {reason}")


def _run(flags: Flags, hints: Hints) -> Path:
    """Run the task that the flags select, and return the folder of the version.

    Each task imports only the packages that it needs.
    """
    if flags.player is not None:
        from octofold_export.player_export import export_player

        return export_player(flags.player, flags.name, flags.models, flags.version, _report)
    if flags.record_strength is not None:
        from octofold_export.publishing.record_strength import record_strength

        assert flags.version is not None
        return record_strength(flags.models, flags.name, flags.version, flags.record_strength)
    from octofold_export.extension import extend
    from octofold_export.network_export import export_network

    return (extend if flags.extend else export_network)(lambda: _source(flags, hints), flags, _report)


def _source(flags: Flags, hints: Hints) -> Source:
    """Load and return the network that the flags name."""
    if flags.checkpoint is not None:
        from octofold_export.sources.octofold_checkpoint import from_checkpoint

        return from_checkpoint(flags.checkpoint)
    if flags.ntuple is not None:
        from octofold_export.sources.ntuple import from_ntuple

        megabytes = flags.max_megabytes
        return from_ntuple(flags.ntuple, None if megabytes is None else int(megabytes * 1e6))
    from octofold_export.checks.description_choice import choose_description
    from octofold_export.publishing.published_card import published_description

    def describe(given: Hints, network: TrainedNetwork) -> tuple[Description, Evidence | None]:
        if flags.extend:
            return published_description(flags.models / flags.name / str(flags.version)), None
        return choose_description(given, network, network.weights, _report, accept=flags.accept)

    hints = _with_hints_of_file(flags, hints, flags.weights or flags.onnx or flags.sb3 or flags.torchscript)
    if flags.onnx is not None:
        from octofold_export.sources.described_network import from_onnx

        return from_onnx(flags.onnx, hints, describe)
    import torch

    from octofold_export.sources import torch_sources

    # Threads that share a small batch wait for each other. On a busy machine, this takes most of the time.
    torch.set_num_threads(1)
    if flags.sb3 is not None:
        return torch_sources.from_sb3(flags.sb3, hints, describe, _report)
    if flags.torchscript is not None:
        return torch_sources.from_torchscript(flags.torchscript, hints, describe)
    assert flags.module is not None
    weights, state, encoder = flags.weights, flags.state, flags.encoder
    return torch_sources.from_module(flags.module, weights, hints, state, encoder, describe, _report)


def _with_hints_of_file(flags: Flags, hints: Hints, file: Path | None) -> Hints:
    """Return `hints`, completed by the file of --description or, without it, the TOML file beside `file`."""
    if flags.description is not None:
        return merged(hints, read_hints(flags.description))
    if file is None or not file.name:
        return hints
    beside = file.with_suffix(".toml")
    return merged(hints, read_hints(beside)) if beside.exists() else hints


def _with_flags(arguments: Sequence[str], described: str) -> str:
    """Return the command, ready to paste, with the flags `described` in place of flags of the same name."""
    changed = {word for word in described.split() if word.startswith("--")} | {"--no-empty-plane"}
    kept = iter(arguments)
    others = []
    for word in kept:
        if word.partition("=")[0] not in changed:
            others.append(word)
        elif "=" not in word and word != "--no-empty-plane":
            next(kept, None)
    return f"octofold-export {shlex.join(others)} {described}"


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _fail(message: str, code: int = 1) -> int:
    _report(f"octofold-export: {message}")
    return code


if __name__ == "__main__":
    sys.exit(main())

"""Runs `octofold` in processes of its own that start in milliseconds.

A test that asks what a command prints needs a process, but not another import of gRPC, numpy, numba and
matplotlib, which takes most of the time of a short command. So each process is a copy of one that has
imported them. Tests of signals, of what happens at exit and of missing packages start the installed command.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    [
        "octofold_client.cli.command_line",
        "octofold_client.studies.pictures",
        "octofold_players.rollouts.random_player",
        "octofold_players.expectimax.player",
    ]
)


def octofold(
    *arguments: str | Path,
    folder: Path | None = None,
    stdin: str = "",
    timeout: float = 100,
    packages: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """What the command does in this folder, with the packages of another one.

    Raises:
        subprocess.TimeoutExpired: It took longer.
    """
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as files:
        streams = [Path(files) / name for name in ("stdin", "stdout", "stderr")]
        for stream in streams:
            stream.write_text(stdin if stream.name == "stdin" else "")
        process = _processes.Process(
            target=_run, args=(words, folder or Path.cwd(), streams, dict(os.environ), packages)
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, timeout)
        _, output, errors = (stream.read_text() for stream in streams)
        return subprocess.CompletedProcess(words, process.exitcode, output, errors)


def failure(*arguments: str | Path, folder: Path | None = None, stdin: str = "", code: int = 1) -> str:
    """The one line that a command must fail with, without its name and where its help is."""
    done = octofold(*arguments, folder=folder, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, ""), done
    (line,) = done.stderr.splitlines()
    name = "octofold" if code == 1 else f"octofold {arguments[0]}"
    assert line.startswith(f"{name}: ")
    return line.removeprefix(f"{name}: ").removesuffix(f" (see {name} --help)")


def _run(
    arguments: list[str],
    folder: Path,
    streams: list[Path],
    environment: dict[str, str],
    packages: Path | None,
) -> None:
    from octofold_client.cli import main

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [str(packages)] if packages else []
    sys.argv = ["octofold", *arguments]
    for number, stream in enumerate(streams):
        opened = os.open(stream, os.O_RDWR | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.exit(main(arguments))

"""Runs `make test` several times beside other work or in unusual surroundings, and counts which tests failed.

    python bench/operation/busy_tests.py --beside loops --beside bursts --runs 10
    python bench/operation/busy_tests.py --in background --in nohup --in session --in C --in path --in user
    python bench/operation/busy_tests.py --beside loops --runs 3 tests/server -k drain

`loops` is an endless loop on every core, at the same priority. `bursts` comes and goes: all files here and in
the environment are read from the disk anew, Python's packages are compiled, and many processes start at once.
`path` and `user` run in a clone of the last commit, which borrows the packages of this environment: from a
path with spaces and letters beyond ASCII, or as an ordinary user (needs root, and a --python in their reach).

The table has a line for each test that failed; the last line is JSON. The exit code is 1 if any test failed.
"""

from __future__ import annotations

import argparse
import os
import pwd
import random
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

ROOT = Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))
LONGEST_PAUSE_SECONDS = 6.0
BURST = 50


@dataclass
class Surroundings:
    """Where and how `make test` runs."""

    folder: Path = ROOT
    before: tuple[str, ...] = ()
    """Words before the command."""
    variables: dict[str, str] = field(default_factory=dict)
    process: dict[str, Any] = field(default_factory=dict)
    """Further arguments of `subprocess.Popen`."""


def main() -> int:
    """Run the tests; returns the exit code."""
    options, tests = _parse()
    failures: Counter[str] = Counter()
    runs: list[dict[str, object]] = []
    plans = [(beside, "here") for beside in options.beside for _ in range(options.runs)]
    plans += [("nothing", where) for where in options.inside]
    with tempfile.TemporaryDirectory(prefix="octofold-busy-") as work, suppress(KeyboardInterrupt):
        Path(work).chmod(0o755)
        for number, (beside, where) in enumerate(plans, 1):
            with WORK[beside]():
                run = run_tests(surroundings(where, Path(work), options), tests, Path(work) / f"{number}.xml")
            failures.update(run["failed"])
            runs.append({"beside": beside, "in": where, **run})
            what = f"{run['tests']} tests, {len(run['failed'])} failed, exit code {run['exit']}"
            print(f"[{number}/{len(plans)}] {beside}, {where}: {what}, {run['seconds']} s", file=sys.stderr)
    rows = [(test, f"{times} of {len(runs)}") for test, times in failures.most_common()]
    report(f"make test, {len(runs)} of {len(plans)} runs", ["failed test", "runs"], rows, runs=runs)
    return int(len(runs) < len(plans) or any(run["exit"] for run in runs))


def run_tests(where: Surroundings, tests: list[str], results: Path) -> dict[str, Any]:
    """Run `make test` once: its exit code, seconds, number of tests and the names of those that failed."""
    results.touch()
    results.chmod(0o666)
    command = [*where.before, "make", "test", *([f"TESTS={shlex.join(tests)}"] if tests else [])]
    variables = {
        **os.environ,
        **where.variables,
        "PYTEST_ADDOPTS": f"--junit-xml={shlex.quote(str(results))}",
    }
    begin = time.monotonic()
    with subprocess.Popen(command, cwd=where.folder, env=variables, **where.process) as running:
        try:
            code = running.wait()
        except BaseException:
            running.terminate()
            raise
    seconds = round(time.monotonic() - begin)
    cases = list(ElementTree.parse(results).iter("testcase")) if results.stat().st_size else []
    failed = [_name(case) for case in cases if {part.tag for part in case} & {"failure", "error"}]
    return {"exit": code, "seconds": seconds, "tests": len(cases), "failed": sorted(set(failed))}


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"


@contextmanager
def nothing() -> Iterator[None]:
    """No other work."""
    yield


@contextmanager
def loops() -> Iterator[None]:
    """An endless loop on every core."""
    with ExitStack() as stack:
        for _ in range(CORES):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(loop.kill)
        yield


@contextmanager
def bursts() -> Iterator[None]:
    """Work that comes and goes, in an order that is the same each time."""
    over = threading.Event()
    chance = random.Random(1)

    def work() -> None:
        while not over.is_set():
            chance.choice((read_everything, compile_packages, start_processes))(over)
            over.wait(chance.uniform(0, LONGEST_PAUSE_SECONDS))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def read_everything(over: threading.Event) -> None:
    """Read all files of this folder and of the environment from the disk, not from its cache."""
    for folder in (ROOT, Path(sys.prefix)):
        for file in folder.rglob("*"):
            if over.is_set():
                return
            with suppress(OSError), file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                while opened.read(1 << 20):
                    pass


def compile_packages(over: threading.Event) -> None:
    """Compile all installed packages on all cores, into a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as cache:
        command = [
            sys.executable,
            "-m",
            "compileall",
            "-qq",
            "-f",
            "-j",
            str(CORES),
            sysconfig.get_path("purelib"),
        ]
        variables = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        with subprocess.Popen(command, env=variables, start_new_session=True) as compiling:
            while compiling.poll() is None and not over.wait(0.5):
                pass
            if compiling.poll() is None:
                os.killpg(compiling.pid, signal.SIGKILL)


def start_processes(_: threading.Event) -> None:
    """Start many short processes at once."""
    started = [subprocess.Popen([sys.executable, "-c", "sum(range(10**7))"]) for _ in range(BURST)]
    for process in started:
        process.wait()


WORK = {"nothing": nothing, "loops": loops, "bursts": bursts}


def surroundings(name: str, work: Path, options: argparse.Namespace) -> Surroundings:
    """The surroundings of this name; clones are made where there is none yet."""
    if name == "background":  # a shell lets such commands ignore SIGINT
        return Surroundings(before=("sh", "-c", '"$@" < /dev/null & wait $!', "sh"))
    if name == "nohup":
        return Surroundings(before=("nohup",), process={"stdin": subprocess.DEVNULL})
    if name == "session":
        closed = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        return Surroundings(process=closed, variables={"TERM": "dumb"})
    if name == "C":
        return Surroundings(variables={"LC_ALL": "C", "LANG": "C"})
    if name == "path":
        return Surroundings(clone(work / "Zoë's tests, 試験", options.python))
    if name == "user":
        user = pwd.getpwnam(options.user)
        folder, home = clone(work / "user", options.python), work / "home"
        home.mkdir(exist_ok=True)
        for path in (home, folder, *folder.rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
        variables = {"HOME": str(home), "USER": user.pw_name, "LOGNAME": user.pw_name}
        ids = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        return Surroundings(folder, variables=variables, process=ids)
    return Surroundings()


def clone(folder: Path, python: str) -> Path:
    """Clone the last commit, with an environment of its own that finds the packages of this one."""
    if folder.exists():
        return folder
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
    environment = folder / ".venv"
    subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True)
    own = environment / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    # Named so that it comes after the folders of the clone.
    (own / "zz_borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--editable", folder], check=True)
    for script in Path(sys.executable).parent.iterdir():
        with suppress(FileExistsError):
            (environment / "bin" / script.name).symlink_to(script)
    pytest = environment / "bin" / "pytest"
    pytest.unlink()
    pytest.write_text('#!/bin/sh\nexec "${0%/*}/python" -m pytest "$@"\n')
    pytest.chmod(0o755)
    for stamp in ("compiled", "light", "dev"):  # in the order of make's rules
        (environment / stamp).touch()
    return folder


def _parse() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--beside", choices=WORK, action="append", default=[], help="other work; may be repeated"
    )
    parser.add_argument("--runs", type=int, default=1, help="runs beside each (default: %(default)s)")
    places = ("background", "nohup", "session", "C", "path", "user")
    parser.add_argument(
        "--in",
        choices=places,
        action="append",
        default=[],
        dest="inside",
        help="surroundings; may be repeated",
    )
    base = shutil.which(getattr(sys, "_base_executable", "") or "python3") or "python3"
    parser.add_argument(
        "--python", default=base, help="makes the environments of clones (default: %(default)s)"
    )
    parser.add_argument("--user", default="nobody", help="the ordinary user (default: %(default)s)")
    options, tests = parser.parse_known_args()
    if "user" in options.inside and os.geteuid() != 0:
        parser.error("--in user needs root, who alone can be another user")
    if not options.beside and not options.inside:
        parser.error("give --beside or --in: beside what, or in what, the tests run")
    return options, tests


if __name__ == "__main__":
    sys.exit(main())

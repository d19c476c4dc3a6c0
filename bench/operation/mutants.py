"""Shows what the tests notice: mutants of the product, and which of them the tests of their folder let live.

    python bench/operation/mutants.py --results before.jsonl               # goes on where it was stopped
    python bench/operation/mutants.py --results after.jsonl --before before.jsonl
    python bench/operation/mutants.py --draw 300                           # a new list; needs cosmic-ray

mutants.jsonl holds mutants drawn at random from all that cosmic-ray makes of the product, except those that
change nothing but annotations. Each is some lines of a file and what becomes of them, so it stays the same
when other lines change. A mutant falls if a test of the mirrored folder fails or takes too long. The exit
code is 1 if one survives that fell before.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.jsonl")
PACKAGES = ("proto", "game", "players", "training", "export", "papers", "server", "client")
COMPILED = ("game/", "players/", "training/", "papers/")
Mutant = dict[str, Any]


def main() -> int:
    """Draw or run mutants; returns the exit code."""
    options = _parse()
    if options.draw:
        drawn = draw(options.draw, options.seed)
        LIST.write_text("".join(f"{json.dumps(each)}\n" for each in drawn), encoding="utf-8")
        return 0
    options.results.parent.mkdir(parents=True, exist_ok=True)
    mutants = read(LIST)[: options.first]
    done = {each["mutant"] for each in read(options.results)}
    with tempfile.TemporaryDirectory(prefix="octofold-mutants-") as work:
        tree = clone(Path(work) / "octofold", sys.executable)
        passed: dict[tuple[Path, ...], bool] = {}
        with options.results.open("a", encoding="utf-8") as results:
            for number, mutant in enumerate(mutants):
                if number not in done:
                    outcome = run(mutant, tree, options.seconds, passed)
                    where = f"{mutant['file']}:{mutant['line']}"
                    print(f"[{number + 1}/{len(mutants)}] {where}: {outcome}", file=sys.stderr, flush=True)
                    print(json.dumps({"mutant": number, "where": where, "outcome": outcome}), file=results)
                    results.flush()
    found = read(options.results)
    fell = {each["mutant"] for each in read(options.before) if each["outcome"] in FALLEN}
    lost = [each for each in found if each["outcome"] == "survived" and each["mutant"] in fell]
    counts = Counter(each["outcome"] for each in found)
    rows = [*counts.most_common(), *((f"fell before: {each['where']}", "survived") for each in lost)]
    report("mutants", ["outcome", "mutants"], rows, outcomes=counts, lost=lost)
    return int(bool(lost))


FALLEN = ("failed", "took too long")


def read(file: Path | None) -> list[dict[str, Any]]:
    """The lines of a file; none if it does not exist."""
    if file is None or not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def run(mutant: Mutant, tree: Path, seconds: float, passed: dict[tuple[Path, ...], bool]) -> str:
    """The outcome of the tests with a mutant: failed, took too long, survived, or why it was not tried.

    Args:
        mutant: the mutant.
        tree: a clone with an environment.
        seconds: time limit for the tests.
        passed: which tests pass without a mutant; what is missing is found out, and added.
    """
    file, tests = tree / mutant["file"], tests_of(Path(mutant["file"]), tree)
    if not file.exists():
        return "the file is gone"
    if tests not in passed:
        passed[tests] = outcome_of(tests, tree, seconds) == "survived"
    if not passed[tests]:
        return "its tests do not pass without it"
    with changed(file, mutant) as is_changed:
        if not is_changed:
            return "the lines are gone"
        if not mutant["file"].startswith(COMPILED):
            return outcome_of(tests, tree, seconds)
        with compiled_code_of_before(tree):
            outcome = outcome_of(tests, tree, seconds)
            if outcome == "survived":  # what was compiled before may hold lines of the file, inlined
                forget_compiled(tree)
                outcome = outcome_of(tests, tree, seconds)
            return outcome


@contextmanager
def compiled_code_of_before(tree: Path) -> Iterator[None]:
    """Put back what numba had compiled before: other files may hold the mutant now, inlined."""
    kept = {file: file.read_bytes() for file in compiled_code(tree)}
    try:
        yield
    finally:
        forget_compiled(tree)
        for file, content in kept.items():
            file.write_bytes(content)


def compiled_code(tree: Path) -> list[Path]:
    """The files that numba keeps."""
    return [file for package in COMPILED for file in (tree / package).rglob("*.nb[ci]")]


def forget_compiled(tree: Path) -> None:
    """Remove what numba has compiled."""
    for file in compiled_code(tree):
        file.unlink()


def outcome_of(tests: tuple[Path, ...], tree: Path, seconds: float) -> str:
    """What becomes of the tests: survived if all of them pass, failed, or took too long."""
    command = [".venv/bin/pytest", "--exitfirst", "--numprocesses", "2", *map(str, tests)]
    with subprocess.Popen(
        command, cwd=tree, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as tested:
        try:
            return "survived" if tested.wait(seconds) == 0 else "failed"
        except subprocess.TimeoutExpired:
            return "took too long"
        finally:
            if tested.poll() is None:
                os.killpg(tested.pid, signal.SIGKILL)


def tests_of(file: Path, tree: Path) -> tuple[Path, ...]:
    """The tests of the file and then those of the folder that mirrors the file's, or of one above it."""
    package, _, *rooms = file.parent.parts
    folder = Path("tests", package, *rooms)
    while not list((tree / folder).rglob("test_*.py")):
        folder = folder.parent
    own = folder / f"test_{file.name}"
    return (own, folder) if (tree / own).exists() else (folder,)


@contextmanager
def changed(file: Path, mutant: Mutant) -> Iterator[bool]:
    """Put a mutant into a file for as long as the block runs; False if its lines are not there."""
    content, times = file.read_bytes(), file.stat()
    lines = content.decode().splitlines(keepends=True)
    before, after = (mutant[name].splitlines(keepends=True) for name in ("before", "after"))
    places = [at for at in range(len(lines)) if lines[at : at + len(before)] == before]
    if places:
        at = min(places, key=lambda place: abs(place + 1 - mutant["line"]))
        file.write_text("".join(lines[:at] + after + lines[at + len(before) :]), encoding="utf-8")
    try:
        yield bool(places)
    finally:
        file.write_bytes(content)
        os.utime(
            file, ns=(times.st_atime_ns, times.st_mtime_ns)
        )  # so that compiled files are those of before


def draw(count: int, seed: int) -> list[Mutant]:
    """Draw mutants from all files of the product."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    operators = {name: get_operator(name) for name in operator_names()}
    made = {name: operator() for name, operator in operators.items() if not operator.arguments()}
    files = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    candidates = []
    for file in files:
        if not file.stem.endswith(("_pb2", "_pb2_grpc")):
            nodes = list(ast_nodes(get_ast(file.read_text(encoding="utf-8"))))
            for name, operator in made.items():
                places = sum(1 for node in nodes for _ in operator.mutation_positions(node))
                candidates += [(file, name, occurrence) for occurrence in range(places)]
    random.Random(seed).shuffle(candidates)
    print(f"{len(candidates):,} mutants of {len(files)} files", file=sys.stderr)
    drawn: list[Mutant] = []
    for file, name, occurrence in candidates:
        source = file.read_text(encoding="utf-8")
        mutated = mutate_code(source, made[name], occurrence)
        if mutated is not None and _matters(source, mutated):
            drawn.append(
                {"file": str(file.relative_to(ROOT)), "operator": name, **_difference(source, mutated)}
            )
            if len(drawn) == count:
                break
    return sorted(drawn, key=lambda mutant: (mutant["file"], mutant["line"]))


def _matters(source: str, mutated: str) -> bool:
    """Whether the mutant is a program, and differs in more than annotations."""
    try:
        return _without_annotations(source) != _without_annotations(mutated)
    except SyntaxError:
        return False


def _without_annotations(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, ast.Constant(None))
    return ast.dump(tree)


def _difference(source: str, mutated: str) -> dict[str, Any]:
    """The lines that differ, or one more where a line is only added."""
    old, new = (text.splitlines(keepends=True) for text in (source, mutated))
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changes = [block for block in blocks if block[0] != "equal"]
    (_, first, _, new_first, _), (_, _, last, _, new_last) = changes[0], changes[-1]
    if first == last:
        last, new_last = last + 1, new_last + 1
    return {"line": first + 1, "before": "".join(old[first:last]), "after": "".join(new[new_first:new_last])}


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


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results/mutants.jsonl"), metavar="FILE")
    parser.add_argument(
        "--before", type=Path, metavar="FILE", help="results of an earlier run, to compare with"
    )
    parser.add_argument("--first", type=int, metavar="N", help="only the first N mutants")
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="limit for a mutant (default: %(default)g)"
    )
    parser.add_argument("--draw", type=int, metavar="N", help="draw a new list instead")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

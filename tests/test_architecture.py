"""ARCHITECTURE.md lists every module of the packages, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("game", "proto", "players", "training", "export", "server", "client")


def listed() -> set[Path]:
    """The files in the tables of ARCHITECTURE.md, whose headings name their packages."""
    files, package = set(), Path()
    _, _, tables = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Every file")
    for line in tables.splitlines():
        if heading := re.fullmatch(r"### (\w+/\w+)/", line):
            package = Path(heading[1])
        elif row := re.match(r"\| `([\w/]+\.py)` \| \S", line):
            files.add(package / row[1])
    return files


def present() -> set[Path]:
    """The modules of the packages, without generated stubs."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return {
        file.relative_to(ROOT)
        for file in files
        if file.name != "__init__.py" and not file.name.endswith(("_pb2.py", "_pb2_grpc.py"))
    }


def test_the_list_of_files_is_the_tree() -> None:
    assert listed() == present()

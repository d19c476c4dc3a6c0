"""ARCHITECTURE.md lists every module of the packages once, and no other."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PACKAGES = ("game", "proto", "players", "training", "export", "server", "client")


def listed() -> list[Path]:
    """The files in the tables of ARCHITECTURE.md, whose headings name their packages."""
    files, package = list[Path](), Path()
    for line in TEXT.partition("## Every file")[2].splitlines():
        if heading := re.fullmatch(r"### (\w+/\w+)/", line):
            package = Path(heading[1])
        elif row := re.match(r"\| `([\w/]+\.py)` \| \S", line):
            files.append(package / row[1])
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
    assert set(listed()) == present()


def test_every_file_has_one_row() -> None:
    assert [file for file, rows in Counter(listed()).items() if rows > 1] == []


def test_no_section_says_a_thing_twice() -> None:
    """Rows and steps begin differently: of two that begin alike, one is left over."""
    for section in TEXT.split("\n## "):
        begun = re.findall(r"^(?:\|[^|]*\||\d+\.)", section, re.MULTILINE)
        if not section.startswith(("The floors", "Every file")):  # have a table for each package
            assert [each for each, times in Counter(begun).items() if times > 1] == []

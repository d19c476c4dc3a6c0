"""ARCHITECTURE.md names the rooms that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("package", ["game", "server", "client", "players", "training", "export", "papers"])
def test_the_table_of_a_package_lists_exactly_its_rooms(package: str) -> None:
    folder = ROOT / package / f"octofold_{package}"
    (section,) = re.findall(rf"^### {package}\n(.*?)^#", TEXT, re.MULTILINE | re.DOTALL)
    cells = re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)
    named = {name for cell in cells for name in re.findall("`(.+?)`", cell)}
    rooms = {f"{file.parent.name}/" for file in folder.glob("*/__init__.py")}
    assert {name for name in named if name.endswith("/")} == rooms
    assert [name for name in named - rooms if not (folder / name).is_file()] == []

"""`octofold-train endgame` makes the tables that are missing, and says what it made."""

from pathlib import Path

import pytest
from octofold_players.endgame.tables import load_tables
from octofold_training.cli import main


def test_tables_are_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "tables")
    assert main(["endgame", "--goals", "3", "--kept", "654210", "--out", out, "--least-chance", "0"]) == 0
    assert capsys.readouterr().out == f"{out}: tile 8, 2,395 positions\n"
    made = (tmp_path / "tables" / "kept-012456-goal-3" / "table.json").stat().st_mtime_ns
    assert main(["endgame", "--goals", "4", "3", "--out", out]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: has a table of 8 already\n{out}: tile 16, ")
    assert (tmp_path / "tables" / "kept-012456-goal-3" / "table.json").stat().st_mtime_ns == made
    assert [table.goal for table in load_tables(tmp_path / "tables")] == [4, 3]

"""`octofold-train endgame` makes missing tables, and reports them."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from octofold_players.endgame.tables import load_tables
from octofold_training.cli import main
from support.terminals import OCTOFOLD, Screen


def test_endgame_tables_are_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tables"
    flags = ["endgame", "--five", "32", "--six", "32", "--out", str(out)]
    assert main(flags) == 0
    five, six = (int(np.bitwise_count(table.kept).sum()) for table in load_tables(out))
    made = (out / "six-32" / "table.json").stat().st_mtime_ns
    assert capsys.readouterr().out == (
        f"{out}/five-32: {five:,} positions\n{out}/six-32: {six:,} positions\n"
    )
    assert main(flags) == 0
    assert capsys.readouterr().out == (
        f"{out}/five-32: already exists, {five:,} positions\n"
        f"{out}/six-32: already exists, {six:,} positions\n"
    )
    assert (out / "six-32" / "table.json").stat().st_mtime_ns == made


def test_a_table_that_is_too_large_for_the_machine_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 1 << 20, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert main(["endgame", "--five", "512", "--six", "32", "--out", str(tmp_path / "tables")]) == 1
    assert capsys.readouterr().err == (
        "octofold-train: --five 512 takes about 12.0 GB of memory; this machine has 4.3 GB\n"
    )
    assert not (tmp_path / "tables").exists()


def test_results_go_to_standard_output_even_if_the_progress_bar_is_on_a_terminal(tmp_path: Path) -> None:
    described(tmp_path / "tables" / "five-32")  # slow, and one table is enough
    program = OCTOFOLD.with_name("octofold-train")
    command = f"{program} endgame --five 32 --six 32 --out {tmp_path}/tables > {tmp_path}/made"
    screen = Screen("-c", command, program=Path("/bin/sh"))
    screen.ends()
    screen.close()
    assert len((tmp_path / "made").read_text().splitlines()) == 2


def described(table: Path, table_format: int = 4) -> None:
    """Write a table without positions."""
    formation, tile = table.name.split("-")
    description = {"format": table_format, "formation": formation, "largest": int(tile).bit_length() - 1}
    table.mkdir(parents=True)
    (table / "table.json").write_text(json.dumps({**description, "moves": 0}))
    with lzma.open(table / "listed.npy.xz", "wb") as file:
        np.save(file, np.zeros(0, np.uint64))


def test_trimmed_tables_are_those_of_the_positions_in_games(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    solved, out = tmp_path / "tables", tmp_path / "small"
    assert main(["endgame", "--five", "32", "--six", "32", "--out", str(solved)]) == 0
    capsys.readouterr()
    trim = ["trim", "--tables", str(solved), "--out", str(out), "--games", "2"]
    assert main(trim) == 0
    five, six = (len(table.listed) for table in load_tables(out))
    assert capsys.readouterr().out == f"{out}/five-32: {five:,} positions\n{out}/six-32: {six:,} positions\n"
    assert 0 < five + six < 100_000
    assert main(trim) == 1
    assert capsys.readouterr().err == f"octofold-train: {out} already exists; name another --out\n"
    assert main([*trim[:-4], "--out", str(tmp_path / "other"), "--tables", str(tmp_path / "none")]) == 1
    assert (
        "no endgame tables; use models/perimeter, or make some with octofold-train endgame"
        in capsys.readouterr().err
    )

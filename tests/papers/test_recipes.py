"""The shipped recipes of the papers are valid, and errors name the wrong key of a recipe."""

import re
import tomllib
from pathlib import Path

import pytest
from octofold_papers import cli
from octofold_papers.commands import TRAINERS
from octofold_training.networks.build import build
from octofold_training.recipes import read_recipe
from octofold_training.run.options import check_options
from octofold_training.train_command import keys_of

RECIPES = sorted((Path(__file__).parents[2] / "papers").glob("*/*/*.toml"))
OPTIONS = {table: kind for trainer in TRAINERS.values() for table, kind in trainer.tables.items()}


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_every_shipped_recipe_is_valid(file: Path) -> None:
    recipe = read_recipe(file, ("network", *OPTIONS))
    build(recipe.network())
    (table,) = recipe.tables.keys() - {"network"}
    recipe.options(table, OPTIONS[table])


@pytest.mark.parametrize("name", TRAINERS)
def test_every_key_is_printed_as_in_a_recipe_with_its_meaning(name: str) -> None:
    assert all(re.search(r"# \S|^\s*\[\w+\]$", line) for line in keys_of(TRAINERS[name]))
    printed = tomllib.loads("\n".join(keys_of(TRAINERS[name])))
    for table, kind in TRAINERS[name].tables.items():
        assert check_options(printed[table], kind) == kind()


@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        (
            "imitation",
            "[network]\nkind = 'mlp'\ndens = []\n[imitation]",
            "[network] has no 'dens'; did you mean",
        ),
        ("dqn", "[dqn]\nepsilon = 2", "epsilon is 2; it must be at most 1"),
        ("dqn", "[dqm]", "unknown table [dqm]; did you mean dqn?"),
        ("lazyzero", "[xyz]", f"unknown table [xyz]; choose from network, {', '.join(OPTIONS)}"),
    ],
)
def test_a_wrong_recipe_is_refused_with_its_wrong_key_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str, message: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    assert cli.main([command, str(file), "--state", str(tmp_path / "run")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"octofold-papers: {file}: ")
    assert message in line
    assert not (tmp_path / "run").exists()

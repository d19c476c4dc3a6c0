"""Recipes set options, and errors name the wrong key."""

import re
import tomllib
from pathlib import Path

import pytest
from octofold_training import cli
from octofold_training.learners.ntuple_td import NTupleOptions
from octofold_training.learners.student_run import DistilOptions
from octofold_training.networks.build import build
from octofold_training.recipes import RecipeError, read_recipe
from octofold_training.run.options import check_options
from octofold_training.train_command import TRAINERS, keys_of

TABLES = ("network", "ntuple", "distil", "device_distil")
RECIPES = sorted((Path(__file__).parents[2] / "training" / "recipes").glob("*.toml"))
NETWORK = """[network]
kind = "cnn"
layers = 2
channels = 8
exponents = 16
"""


def _recipe(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text)
    return file


def test_a_recipe_has_the_name_of_its_file_and_defaults_for_missing_keys(tmp_path: Path) -> None:
    recipe = read_recipe(_recipe(tmp_path, NETWORK + "[distil]\npositions = 5e6\nbatch_size = 64\n"), TABLES)
    assert recipe.name == "mine"
    assert recipe.options("distil", DistilOptions) == DistilOptions(positions=5e6, batch_size=64)


def test_lists_become_the_tuples_of_the_options(tmp_path: Path) -> None:
    recipe = read_recipe(_recipe(tmp_path, "[ntuple]\ntuples = [[0, 1, 2], [4, 5, 6]]\n"), TABLES)
    assert recipe.options("ntuple", NTupleOptions).tuples == ((0, 1, 2), (4, 5, 6))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[distil", "not valid TOML"),
        ("[[distil]]", r"table must be \[distil\], got \[\[distil\]\]"),
        ("[distil]\nslices = 1000000000000", r"slices is 1000000000000; it must be at most 1e\+09"),
        (
            "positions = 3",
            r"'positions' is outside of a table; move it below a heading, such as \[network\]",
        ),
        ("[ntuple]", r"table \[distil\] is missing"),
        ("[distill]", r"unknown table \[distill\]; did you mean distil\?"),
        (
            "[distil]\n[xyz]",
            r"unknown table \[xyz\]; choose from network, ntuple, distil, device_distil",
        ),
        ("[distil]\npositoins = 3", r"\[distil\] has no 'positoins'; did you mean positions\?$"),
        ("[distil]\nbatch_size = 1", "batch_size is 1; it must be at least 2"),
        ("[distil]\nbatch_size = 64.5", "batch_size is 64.5, not a whole number"),
        ("[distil]\ntemperature = 'hot'", "temperature is 'hot', not a number"),
        ("[distil]\ntemperature = nan", "temperature is nan"),
        ('[distil]\nstart = "net\\u0000"', r"start must not contain a NUL character"),
    ],
)
def test_a_wrong_recipe_is_refused_with_the_wrong_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=rf"mine\.toml: .*{message}"):
        read_recipe(_recipe(tmp_path, text), TABLES).options("distil", DistilOptions)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ntuple]\ntuples = [[0, 1], [2, '3']]", r"\[ntuple\] tuples\[1\]\[1\] is '3', not a whole number"),
        ("[ntuple]\ntuples = 'all'", r"\[ntuple\] tuples is 'all', not a list"),
        ("[ntuple]\nthreads = true", r"\[ntuple\] threads is true, not a whole number"),
        ("[ntuple]\nstages = [7, 8]", r"\[ntuple\] stages"),
    ],
)
def test_lists_are_checked_to_their_last_number(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=rf"mine\.toml: {message}"):
        read_recipe(_recipe(tmp_path, text), TABLES).options("ntuple", NTupleOptions)


def test_a_network_that_cannot_be_built_is_named_with_its_file(tmp_path: Path) -> None:
    recipe = read_recipe(_recipe(tmp_path, NETWORK.replace("channels = 8", "channels = 0")), TABLES)
    with pytest.raises(RecipeError, match=r"mine\.toml: \[network\] channels is 0; it must be at least 1"):
        recipe.network()


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_every_shipped_recipe_is_valid(file: Path) -> None:
    recipe = read_recipe(file, TABLES)
    for trainer in TRAINERS.values():
        for table in trainer.tables.keys() & recipe.tables:
            recipe.options(table, trainer.tables[table])
    if "network" in recipe.tables:
        build(recipe.network())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.toml"], "nowhere.toml: recipe does not exist"),
        (["RECIPE", "--teacher", "nothing"], "nothing"),
    ],
)
def test_a_student_without_recipe_or_teacher_ends_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    file = str(_recipe(tmp_path, NETWORK + "[distil]\n"))
    arguments = [file if argument == "RECIPE" else argument for argument in arguments]
    assert cli.main(["student", *arguments, "--state", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_every_key_is_printed_as_in_a_recipe_with_its_meaning() -> None:
    for trainer in TRAINERS.values():
        assert all(re.search(r"# \S|^\s*\[\w+\]$", line) for line in keys_of(trainer))
        printed = tomllib.loads("\n".join(keys_of(trainer)))
        for table, kind in trainer.tables.items():
            assert check_options(printed[table], kind) == kind()

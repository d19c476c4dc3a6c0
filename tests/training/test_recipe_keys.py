"""The list of keys in docs/training.md is that of the code, and the learner of docs/learners.md learns."""

import re
from pathlib import Path
from typing import Any

import pytest
from octofold_training.recipe_keys import OPTIONS, with_keys
from octofold_training.recipes import TABLES
from octofold_training.run.curves import Curves
from octofold_training.run.loop import train

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "training.md"
IMPORTS = """
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from octofold_game.rules import afterstates
from octofold_training.networks.architectures import Architecture
from octofold_training.networks.encoding import OneHot
from octofold_training.games.environment import Environment
from octofold_training.run.training_run import RunProgress, TrainingRun, averaged_over
from octofold_training.networks.build import build
from octofold_game.commands.options import option
from torch.nn.functional import cross_entropy
"""


def test_every_key_is_in_the_page_as_it_is() -> None:
    """`make keys` rewrites the page."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_keys(page) == page


def test_every_table_of_a_recipe_is_listed() -> None:
    assert ("network", *OPTIONS) == TABLES


def test_every_key_says_what_it_means() -> None:
    rows = re.findall(r"^\| `\w+` \|.*\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 80
    assert all(rows)


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="the page needs the lines"):
        with_keys("# Training\n")


def test_the_learner_of_the_page_learns_and_goes_on(tmp_path: Path) -> None:
    """The losses of six seeds fell by 0.42 nats with a standard deviation of 0.11: fewer than one in five
    hundred fall by less than 0.1 by chance.
    """
    page = (DOCS / "learners.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(IMPORTS + source, names)
    losses: list[float] = []
    for positions in (5_000.0, 20_000.0):
        run = names["Greedy"](
            names["GreedyOptions"](positions=positions, learning_rate=3e-3),
            {"kind": "mlp", "dense": [32], "exponents": 16},
        )
        train(
            run, tmp_path / "run", tmp_path / "net", Curves({"loss": "Loss"}), lambda p: losses.append(p.loss)
        )
    assert run.positions >= 20_000
    assert len(losses) == 79  # of 256 positions each; the second run went on with the first
    assert sum(losses[-10:]) / 10 < sum(losses[:10]) / 10 - 0.1

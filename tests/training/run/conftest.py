"""Trainers of every kind, and a student that has learned a little."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from octofold_players.ntuple.network import NTupleNetwork
from support.trainers import Trainer, trainers_of


@pytest.fixture(scope="module")
def trainers(teacher: NTupleNetwork, architecture: dict[str, Any]) -> dict[str, Trainer]:
    return trainers_of(teacher, architecture)


@pytest.fixture(params=["device", "student", "muon"])
def trainer(request: pytest.FixtureRequest, trainers: dict[str, Trainer]) -> Trainer:
    """A trainer of each kind, for claims that depend on the kind."""
    return trainers[request.param]


@pytest.fixture
def student(trainers: dict[str, Trainer]) -> Trainer:
    """A trainer of students, for claims that do not depend on the kind."""
    return trainers["student"]


@pytest.fixture(scope="module")
def trained_once(trainers: dict[str, Trainer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    trainers["student"].train(folder, positions=320.0)
    return folder


@pytest.fixture
def trained(trained_once: Path, tmp_path: Path) -> Path:
    """The folder of a student that has learned from 320 positions; the test may change it."""
    return Path(shutil.copytree(trained_once, tmp_path / "trained"))

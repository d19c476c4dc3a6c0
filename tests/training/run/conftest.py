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
    """Each of them, where what is claimed depends on it."""
    return trainers[request.param]


@pytest.fixture
def student(trainers: dict[str, Trainer]) -> Trainer:
    """One of them, where it does not."""
    return trainers["student"]


@pytest.fixture(scope="module")
def trained_once(trainers: dict[str, Trainer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    trainers["student"].train(folder, positions=320.0)
    return folder


@pytest.fixture
def trained(trained_once: Path, tmp_path: Path) -> Path:
    """The folder of a student that has learned from 320 positions; the test may do what it likes with it."""
    return Path(shutil.copytree(trained_once, tmp_path / "trained"))

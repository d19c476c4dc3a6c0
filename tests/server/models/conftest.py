"""Fixtures for tests of the model registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from octofold_server.config.options import Config
from octofold_server.config.version_policies import parse_policies
from octofold_server.models.registry import Models
from support.registries import Backends, NewModels


@pytest.fixture
def backends() -> Backends:
    return Backends()


@pytest.fixture
def new_models(tmp_path: Path, backends: Backends) -> Iterator[NewModels]:
    made: list[Models] = []

    def new(policies: str = "all", **arguments: Any) -> Models:
        versions = parse_policies(policies)
        config = Config(models=tmp_path / "models", lanes=1, device="cpu", versions=versions)
        models = Models(config, backends, **arguments)
        made.append(models)
        models.start()
        return models

    yield new
    for models in made:
        for backend in backends.held:
            backend.gate.set()
        models.close()

"""Fixtures for tests of `octofold`: a server of a model with short games, and games of this model."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.evaluations import GAMES, OPTIONS, evaluate, first_games
from support.replays import Replays
from support.servers import ServerProcess, served


@pytest.fixture(scope="session")
def brief_repository(publish_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a small model whose games end early, at the first tile of 128."""
    folder = tmp_path_factory.mktemp("brief")
    publish_model(folder, largest_exponent=6)
    return folder


@pytest.fixture(scope="session")
def brief_target(brief_repository: Path) -> Iterator[str]:
    """The address of a server of `brief_repository`, shared by all tests that do not change it."""
    with served(brief_repository) as server:
        yield server.target


@pytest.fixture(scope="session")
def uninterrupted(brief_target: str, tmp_path_factory: pytest.TempPathFactory) -> Replays:
    """The first games of an evaluation with `OPTIONS` that nothing interrupted."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    done = evaluate(folder, *OPTIONS, "--games", str(GAMES), "--target", brief_target, "--out", "out")
    assert done.returncode == 0, done
    return first_games(folder / "out")


@pytest.fixture
def second(brief_repository: Path) -> Iterator[ServerProcess]:
    """Another server of the same models, which a test may stop or kill."""
    with served(brief_repository) as server:
        yield server

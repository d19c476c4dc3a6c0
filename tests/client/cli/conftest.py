"""What the tests of evaluations that end early share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.evaluations import GAMES, OPTIONS, evaluate, first_games
from support.replays import Replays
from support.servers import ServerProcess, served


@pytest.fixture(scope="session")
def uninterrupted(target: str, tmp_path_factory: pytest.TempPathFactory) -> Replays:
    """The first games of `OPTIONS` as one server plays them in one go."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    done = evaluate(folder, *OPTIONS, "--games", str(GAMES), "--target", target, "--out", "out")
    assert done.returncode == 0, done
    return first_games(folder / "out")


@pytest.fixture
def second(repository: Path) -> Iterator[ServerProcess]:
    """Another server of the same models, for a test to do with as it likes."""
    with served(repository) as server:
        yield server

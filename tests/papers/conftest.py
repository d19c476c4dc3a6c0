"""Fixtures for the tests of the papers."""

from support.crowded_boards import boards  # noqa: F401  # a fixture
from support.training_fixtures import *  # noqa: F403  # fixtures

"""Fixtures for the tests of training."""

from support.training_fixtures import *  # noqa: F403  # fixtures

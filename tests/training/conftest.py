"""What the tests of training share."""

from support.training_fixtures import *  # noqa: F403  # fixtures

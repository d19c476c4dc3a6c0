"""The exception tree is complete, its drawing is correct, and it inverts the server's status table."""

import re

import octofold_client
import pytest
from octofold_client import errors
from octofold_client.errors import OctofoldError
from octofold_game.rules import BoardError
from octofold_proto import status


def classes() -> list[type[Exception]]:
    exported = [getattr(errors, name) for name in errors.__all__]
    return [item for item in exported if isinstance(item, type)]


def test_every_error_is_in_the_tree_that_the_docstring_draws() -> None:
    drawn = re.findall(r"[├└]─ (\w+)", errors.__doc__ or "")
    assert sorted([*drawn, "OctofoldError"]) == sorted(error.__name__ for error in classes())
    assert all(issubclass(error, OctofoldError) for error in classes())


@pytest.mark.parametrize("kind", status.CODES, ids=lambda kind: kind.__name__)
def test_the_client_raises_the_error_that_the_server_raised(kind: type[Exception]) -> None:
    extra = {errors.QueueFull: (0.5,), errors.BackendFailed: ("id-1",)}.get(kind, ())
    sent = kind("what went wrong", *extra)
    received = status.error_of(status.status_of(sent))
    assert str(received) == "what went wrong"
    if kind is BoardError:
        assert type(received) is errors.InvalidRequest
    else:
        assert type(received) is kind
        assert vars(received) == vars(sent)


def test_every_error_that_a_function_raises_is_exported() -> None:
    assert {error.__name__ for error in classes()} <= set(octofold_client.__all__)

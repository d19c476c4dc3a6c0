"""Chatty libraries are silenced, and only for as long as they are called."""

import logging
import sys
import warnings

import pytest
from octofold_export.quiet import quiet


def chatter() -> None:
    print("chatter")
    print("chatter", file=sys.stderr)
    logging.getLogger("chatty").warning("chatter")
    warnings.warn("chatter", stacklevel=1)
    raise KeyError


def test_what_is_printed_logged_and_warned_of_is_dropped_and_errors_are_raised(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyError), quiet():
        chatter()
    assert (*capsys.readouterr(), caplog.text) == ("", "", "")
    logging.getLogger("chatty").warning("heard")
    assert "heard" in caplog.text
    with pytest.raises(UserWarning, match="heard"):  # the tests make errors of warnings
        warnings.warn("heard", stacklevel=1)

"""Exceptions of other libraries become one line."""

import pytest
from octofold_game.errors import first_line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("\n  the cause\nand a stack\n", "the cause"),
        ("[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Load model failed", "Load model failed"),
        ("\x1b[31mtorch writes in colors\x1b[0m", "torch writes in colors"),
        ("", "ValueError"),
    ],
)
def test_the_message_is_the_first_readable_line_without_colors_and_codes(message: str, line: str) -> None:
    assert first_line(ValueError(message)) == line

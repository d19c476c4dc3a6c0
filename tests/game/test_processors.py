"""What is recorded as the processor of a measurement."""

from pathlib import Path

import pytest
from octofold_game.processors import cpu_name


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nmodel name\t: Some CPU @ 3 GHz\n",
            "Some CPU @ 3 GHz",
        ),
        (b"model name\t: caf\xe9\n", "caf\ufffd"),
        (b"processor\t: 0\n", "aarch64"),
        (b"model name\t:\n", "aarch64"),
    ],
)
def test_the_name_is_that_of_linux_or_else_the_given_one(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    (tmp_path / "cpuinfo").write_bytes(content)
    assert cpu_name("aarch64", tmp_path / "cpuinfo") == expected
    assert cpu_name("aarch64", tmp_path / "none") == "aarch64"

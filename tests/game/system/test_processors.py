"""The name of the processor in results, and the number of usable cores."""

import os
from pathlib import Path

import pytest
from octofold_game.system.processors import cpu_name, usable_cores


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
def test_the_processor_has_the_name_that_linux_reports_or_a_given_one(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    (tmp_path / "cpuinfo").write_bytes(content)
    assert cpu_name("aarch64", tmp_path / "cpuinfo") == expected
    assert cpu_name("aarch64", tmp_path / "none") == "aarch64"


@pytest.mark.parametrize(
    ("own", "above", "cores"),
    [
        ("max 100000", "max 100000", None),
        ("150000 100000", "max 100000", 1),
        ("max 100000", "50000 100000", 1),
    ],
)
def test_a_quota_of_the_container_or_its_parents_limits_the_number_of_cores(
    tmp_path: Path, own: str, above: str, cores: int | None
) -> None:
    (tmp_path / "pod" / "container").mkdir(parents=True)
    (tmp_path / "pod" / "cpu.max").write_text(above)
    (tmp_path / "pod" / "container" / "cpu.max").write_text(own)
    membership = tmp_path / "membership"
    membership.write_text("0::/pod/container\n")
    assert usable_cores(membership, tmp_path) == (cores or len(os.sched_getaffinity(0)))

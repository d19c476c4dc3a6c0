"""ARCHITECTURE.md stays a page to read: it is short, and says each thing once."""

import re
from collections import Counter
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_it_can_be_read_before_the_code() -> None:
    assert len(TEXT.encode()) < 12_000


def test_no_section_says_a_thing_twice() -> None:
    """Rows and steps begin differently: of two that begin alike, one is left over."""
    for section in re.split(r"^#{2,3} ", TEXT, flags=re.MULTILINE):
        begun = re.findall(r"^(?:\|[^|]*\||\d+\.)", section, re.MULTILINE)
        assert [each for each, times in Counter(begun).items() if times > 1] == []

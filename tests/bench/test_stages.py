"""`bench/strength/stages.py` plays from five large tiles until they have merged."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def printed(*flags: str) -> list[str]:
    command = [sys.executable, str(ROOT / "bench" / "strength" / "stages.py"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [re.sub(r", [\d,]+ moves/CPU s", "", line) for line in done.stdout.splitlines()]


def test_a_stage_is_won_when_the_large_tiles_have_merged_and_lost_when_no_move_is_left() -> None:
    flags = ("--games", "12", "--tiles", "512,256,32,128,64", "--player", "random")
    lines = printed(*flags, "--player", "expectimax:depth=2")
    assert lines == [
        "12 games of seed 1 from 512,256,32,128,64 to 1024",
        "random: 0.0% won (0.0% to 24.2%)",
        "expectimax:depth=2: 100.0% won (75.8% to 100.0%)",
    ]
    assert printed(*flags) == lines[:2]


def test_tiles_merge_only_as_far_as_they_follow_each_other() -> None:
    assert printed("--games", "1", "--tiles", "2048,512,64,256,128", "--player", "random")[0].endswith(
        "to 1024"
    )


@pytest.mark.parametrize("tiles", ["2048,512", "2048,512,64,256,100", "2048,512,64,256,128,"])
def test_tiles_that_make_no_stage_are_refused(tiles: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        printed("--tiles", tiles, "--player", "random")
    assert f"argument --tiles: must be five or six tiles such as 2048,512,64,256,128, not {tiles!r}" in str(
        refusal.value.stderr
    )

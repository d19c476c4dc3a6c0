"""The simulation of a fleet against queueing theory where that is exact; the autoscaler against its rules."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What `bench/operation/fleet_model.py` prints about itself."""
    command = [sys.executable, str(ROOT / "bench" / "operation" / "fleet_model.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def test_calls_wait_as_long_as_queueing_theory_says(found: dict[str, Any]) -> None:
    assert len(found["times"]) == 8
    for what, (simulated, exact) in found["times"].items():
        assert simulated == pytest.approx(exact, rel=0.04), what


def test_batches_raise_the_rate_of_a_server_to_its_capacity_and_no_further(found: dict[str, Any]) -> None:
    server = found["saturated"]
    assert server["capacity"] == pytest.approx(2 * 16 / 0.020)
    assert server["reached"] == pytest.approx(server["capacity"], rel=0.01)
    assert 0.5 * server["capacity"] < server["highest"] < server["capacity"]
    assert server["p99_seconds"] <= 0.05


def test_the_autoscaler_follows_the_rules_of_kubernetes(found: dict[str, Any]) -> None:
    assert [look["servers"] for look in found["looks"]] == [10, 13, 20, 20, 26, 40, 40, 39, 39, 39]


def test_a_fleet_that_is_large_enough_keeps_its_size_and_one_that_is_not_grows_until_nobody_waits(
    found: dict[str, Any],
) -> None:
    enough, too_small = found["steps"]["0.5"], found["steps"]["2"]
    assert enough == {"servers": 4, "wait": 0, "refused": 0}
    assert 10 <= too_small["servers"] <= 30
    assert too_small["wait"] == 0
    assert too_small["refused"] > 0

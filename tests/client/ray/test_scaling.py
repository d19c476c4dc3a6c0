"""How many replicas a service wants, by the counters that its servers report."""

from importlib.util import find_spec

import pytest

if find_spec("ray") is None:  # the room of these modules needs nothing else of Ray
    pytest.skip("Ray is not installed (the extra `ray`)", allow_module_level=True)

from octofold_client.ray.scaling import DOWN_SECONDS, UP_SECONDS, QueueTime, Scaling

LIMIT = 0.02


class Service:
    """Replicas that answer 100 calls a second, each of which waits `wait` seconds."""

    def __init__(self, running: int, least: int = 1, most: int = 3) -> None:
        self.scaling = Scaling(least, most, LIMIT)
        self.counters = {str(number): QueueTime(0, 0.0) for number in range(running)}
        self.now = 0.0

    def after(self, seconds: float, wait: float, calls: int = 100) -> int:
        """The replicas that run after this time."""
        for _ in range(round(seconds)):
            self.now += 1
            self.counters = {
                name: QueueTime(before.calls + calls, before.seconds + calls * wait)
                for name, before in self.counters.items()
            }
            wanted = self.scaling.wanted(self.now, len(self.counters), self.counters)
            while len(self.counters) < wanted:
                self.counters[f"new {self.now}"] = QueueTime(0, 0.0)
            while len(self.counters) > wanted:
                self.counters.popitem()
        return len(self.counters)


def test_a_replica_is_added_when_calls_wait_long_for_ten_seconds() -> None:
    service = Service(running=1)
    assert service.after(UP_SECONDS, wait=3 * LIMIT) == 1
    assert service.after(1, wait=3 * LIMIT) == 2
    assert service.after(UP_SECONDS / 2, wait=3 * LIMIT) == 2


def test_never_more_than_the_maximum_and_never_fewer_than_the_minimum() -> None:
    service = Service(running=2, least=2, most=3)
    assert service.after(20 * UP_SECONDS, wait=3 * LIMIT) == 3
    assert service.after(20 * DOWN_SECONDS, wait=0) == 2


def test_a_replica_is_removed_when_calls_hardly_wait_for_a_minute() -> None:
    service = Service(running=2)
    assert service.after(DOWN_SECONDS - 1, wait=0) == 2
    assert service.after(3, wait=0) == 1


def test_a_service_that_nobody_calls_shrinks() -> None:
    assert Service(running=3).after(3 * DOWN_SECONDS, wait=0, calls=0) == 1


def test_between_the_limits_nothing_changes() -> None:
    assert Service(running=2).after(5 * DOWN_SECONDS, wait=LIMIT / 2) == 2


def test_one_moment_of_long_waits_adds_nothing() -> None:
    service = Service(running=1)
    service.after(UP_SECONDS, wait=0)
    assert service.after(1, wait=2 * LIMIT) == 1
    assert service.after(UP_SECONDS, wait=0) == 1

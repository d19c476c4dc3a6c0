"""The simulation of a fleet against queueing theory where that is exact; the autoscaler against its rules."""

from math import factorial

import numpy as np
import pytest
from fleet_model import Autoscaler, Server, arrivals, decoded, highest_rate, quantile_at, responses, scaled

CALLS = 100_000


def mean_of(lanes: int, most: int, rate: float, *, random: bool) -> float:
    """The mean response time of lanes that take a second on average for any batch."""
    draws = iter(np.random.default_rng(2).exponential(1.0, CALLS).tolist())
    taken = responses(
        lanes, most, (lambda _: next(draws)) if random else (lambda _: 1.0), arrivals(rate, CALLS)
    )
    return float(taken[CALLS // 10 :].mean())


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
def test_one_lane_with_random_times_is_the_queue_of_erlang(load: float) -> None:
    assert mean_of(1, 1, load, random=True) == pytest.approx(1 / (1 - load), rel=0.04)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
def test_one_lane_with_constant_times_waits_as_pollaczek_and_khinchine_say(load: float) -> None:
    assert mean_of(1, 1, load, random=False) == pytest.approx(1 + load / (2 * (1 - load)), rel=0.04)


def test_several_lanes_wait_as_erlangs_formula_c_says() -> None:
    lanes, offered = 4, 3.0
    all_busy = offered**lanes / factorial(lanes) * lanes / (lanes - offered)
    waits = all_busy / (sum(offered**k / factorial(k) for k in range(lanes)) + all_busy)
    assert mean_of(lanes, 1, offered, random=True) == pytest.approx(1 + waits / (lanes - offered), rel=0.04)


def test_decoding_call_after_call_is_a_lane_with_batches_of_one() -> None:
    times = arrivals(0.7, 10_000)
    assert decoded(times, 1.0) == pytest.approx(times + responses(1, 1, lambda _: 1.0, times))


def test_batches_raise_the_rate_of_a_server_to_its_capacity_and_no_further() -> None:
    server = Server(lanes=2, fixed=0.004, each=0.001, most=16)
    assert server.capacity == pytest.approx(2 * 16 / 0.020)
    times = arrivals(10 * server.capacity, 20_000)
    taken = responses(server.lanes, server.most, server.seconds, times)
    assert len(times) / (times + taken).max() == pytest.approx(server.capacity, rel=0.01)
    rate = highest_rate(server, 0.05, calls=20_000)
    assert 0.5 * server.capacity < rate < server.capacity
    assert quantile_at(server, rate, calls=20_000) <= 0.05


def test_the_autoscaler_follows_the_rules_of_kubernetes() -> None:
    scaler = Autoscaler(target=0.5, fewest=2, most=40)
    assert scaler.servers(0, 10, 10, 0.54) == 10  # within the tolerance
    assert scaler.servers(15, 10, 10, 0.61) == 13  # ceil(10 * 1.22)
    assert scaler.servers(30, 13, 13, 5.0) == 20  # at most twice as many as 30 seconds ago
    assert scaler.servers(45, 20, 20, 5.0) == 20
    assert scaler.servers(60, 20, 20, 5.0) == 26  # 13 were there 30 seconds ago
    assert scaler.servers(90, 26, 26, 5.0) == 40  # not more than the most
    assert scaler.servers(200, 40, 40, 0.1) == 40  # a look in the last five minutes wanted more
    assert scaler.servers(500, 40, 40, 0.1) == 39  # one fewer a minute
    assert scaler.servers(507, 39, 20, 0.6) == 39  # servers that start do not count twice
    assert scaler.servers(515, 39, 39, 0.1) == 39


def test_a_fleet_that_is_large_enough_keeps_its_size_and_one_that_is_not_grows_until_nobody_waits() -> None:
    server = Server(lanes=2, fixed=0.004, each=0.001, most=16)
    for load, fewest, most in ((0.5, 4, 4), (2.0, 10, 30)):
        course = scaled(
            lambda _, load=load: load * 4 * server.capacity,  # type: ignore[misc]
            server,
            Autoscaler(target=0.8, fewest=4, most=50),
            seconds=400,
            servers=4,
            start_seconds=20,
            longest_queue=1000,
            busy=True,
        )
        assert fewest <= course.servers[-1] <= most
        assert course.waits[-1] == 0
        assert (course.refused.sum() > 0) == (load > 1)

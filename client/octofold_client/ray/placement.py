"""Places a number of replicas on a cluster, and replaces those that are lost.

The program that places the replicas owns them: when it ends, however it ends, Ray ends their actors, and each
server ends with its actor.

Ray's control store knows the names of the actors, by which others find the replicas. Each actor tells the
address of its server itself, so a replica that is gone has no address that could be wrong.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError

from octofold_client.errors import ClusterError
from octofold_client.ray import cluster
from octofold_client.ray.replica import Replica, Report, Serving
from octofold_client.wording import counted, listed

SLICE_SECONDS = 0.2
STEP_SECONDS = 1.0
"""How often the replicas are asked how they are."""
SILENT_SECONDS = 15.0
"""A replica that does not answer for this time is lost."""
SETTLED_SECONDS = 60.0
"""A replica that ends sooner than this after its start counts as one that could not start."""
TRIES = 3
"""Replicas in a row that do not start before no more are placed."""


@dataclass(frozen=True)
class ServicePlan:
    """What to place."""

    service: str
    """Name of the service, under which clients find its replicas."""
    serving: Serving
    replicas: int
    cpus: float = 1.0
    """CPUs and GPUs of a replica, as Ray counts them."""
    gpus: float = 0.0
    room_seconds: float = 60.0
    """How long to wait for room in the cluster."""


class _Phase(Enum):
    WAITING = "waiting for room"
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


@dataclass(eq=False)
class _Placed:
    """A replica as the placement sees it."""

    name: str
    actor: Any
    answer: Any
    """The answer to the question that the replica was asked last."""
    asked: float
    phase: _Phase = _Phase.WAITING
    node: str = ""
    report: Report = field(default_factory=Report)
    serving_since: float = 0.0
    told_to_wait: bool = False


class Placement:
    """The replicas of one service, inside `cluster.connected`: `start`, `run`, and in any case `stop`.

    Each of the three calls a function `check` at least every 0.2 s; an exception from it ends the call.

    Args:
        plan: what to place.
        remark: called with a message for people.
        on_change: called with the addresses of the replicas that serve, whenever they change.
    """

    def __init__(
        self,
        plan: ServicePlan,
        remark: Callable[[str], None],
        on_change: Callable[[list[str]], None],
    ) -> None:
        self._plan = plan
        self._remark = remark
        self._on_change = on_change
        self._wanted = plan.replicas
        self._placed: list[_Placed] = []
        self._number = 0
        self._failures = 0
        self._announced: list[str] = []

    @property
    def addresses(self) -> list[str]:
        """The addresses of the replicas that serve, in the order in which they were placed."""
        return [each.report.address for each in self._placed if each.phase is _Phase.SERVING]

    def start(self, check: Callable[[], None]) -> None:
        """Place the replicas, and return when all of them serve.

        Raises:
            ClusterError: a replica did not start, or found no room in time. None is left.
        """
        if replicas(self._plan.service):
            raise ClusterError(
                f"replicas named {self._plan.service} are already on the cluster: use another --name"
            )
        try:
            self._fill()
            while len(self.addresses) < self._wanted:
                self._listen(first=True)
                self._pause(check)
        except BaseException:
            self._kill(self._placed)
            raise
        self._announce()

    def run(self, check: Callable[[], None]) -> None:
        """Keep the service running until `check` raises.

        Raises:
            ClusterError: no replica is left, and none could be started.
        """
        while True:
            self._listen(first=False)
            self._announce()
            self._fill()
            self._pause(check)

    def stop(self, check: Callable[[], None]) -> None:
        """Stop all replicas: each finishes its accepted calls. An exception from `check` kills them."""
        try:
            self._kill(each for each in self._placed if each.phase is not _Phase.SERVING)
            for each in self._placed:
                each.phase, each.answer = _Phase.STOPPING, each.actor.stop.remote()
            self._announce()
            while self._placed:
                self._pause(check)
                self._listen(first=False)
        finally:
            self._kill(self._placed)

    def _pause(self, check: Callable[[], None]) -> None:
        end = time.monotonic() + STEP_SECONDS
        while (left := end - time.monotonic()) > 0:
            check()
            # An answer that is awaited urgently ends the pause; reports are asked for once in a step.
            urgent = [each.answer for each in self._placed if each.phase is not _Phase.SERVING]
            limit = min(left, SLICE_SECONDS)
            if not urgent:
                time.sleep(limit)
            elif ray.wait(urgent, timeout=limit)[0]:
                return

    def _fill(self) -> None:
        """Place as many replicas as are missing."""
        for _ in range(self._wanted - len(self._placed)):
            self._number += 1
            name = name_of(self._plan.service, self._number)
            made = ray.remote(Replica).options(
                name=name,
                num_cpus=self._plan.cpus,
                num_gpus=self._plan.gpus,
                max_restarts=0,  # `_fill` replaces it, so that what cannot start is not retried forever
                max_concurrency=4,
                scheduling_strategy="SPREAD",
            )
            actor: Any = made.remote(self._plan.serving)
            self._placed.append(_Placed(name, actor, actor.node.remote(), time.monotonic()))

    def _listen(self, first: bool) -> None:
        """Take the answers that have arrived, and notice replicas that are lost."""
        answers = {each.answer: each for each in self._placed}
        if not answers:
            return
        arrived, _ = ray.wait(list(answers), num_returns=len(answers), timeout=0)
        for each in list(self._placed):
            if each.answer in arrived:
                self._take(each, first)
            else:
                self._wait(each, first)

    def _take(self, each: _Placed, first: bool) -> None:
        try:
            answer = ray.get(each.answer, timeout=0)
        except (ActorUnavailableError, GetTimeoutError):
            if each.phase is _Phase.SERVING and time.monotonic() - each.asked < SILENT_SECONDS:
                each.answer = each.actor.report.remote()  # it may answer again
                return
            self._lose(each, "its node does not answer", first)
        except RayError as error:
            self._lose(each, cluster.reason(error), first)
        else:
            self._go_on(each, answer, first)

    def _go_on(self, each: _Placed, answer: Any, first: bool) -> None:
        if each.phase is _Phase.STOPPING:
            self._kill([each])
            return
        if each.phase is _Phase.WAITING:
            each.node, each.phase = answer, _Phase.STARTING
            each.answer = each.actor.start.remote()
        elif answer.failure:
            self._lose(each, answer.failure, first)
            return
        else:
            if each.phase is _Phase.STARTING:
                each.serving_since, each.phase = time.monotonic(), _Phase.SERVING
            each.report = answer
            each.answer = each.actor.report.remote()
        each.asked = time.monotonic()

    def _wait(self, each: _Placed, first: bool) -> None:
        waited = time.monotonic() - each.asked
        if each.phase is _Phase.SERVING and waited > SILENT_SECONDS:
            self._lose(each, "it does not answer", first)
        elif each.phase is _Phase.WAITING and waited > self._plan.room_seconds and not each.told_to_wait:
            each.told_to_wait = True
            if first:
                raise ClusterError(self._no_room())
            self._remark(f"{self._no_room()}; it is placed when there is room")

    def _no_room(self) -> str:
        waiting = sum(each.phase is _Phase.WAITING for each in self._placed)
        need = [
            f"{amount:g} {name}{'' if amount == 1 else 's'}"
            for name, amount in (("CPU", self._plan.cpus), ("GPU", self._plan.gpus))
            if amount
        ]
        return (
            f"no room for {waiting} of {counted(len(self._placed), 'replica')}: each needs {listed(need)} of "
            f"one node, and the cluster has {cluster.room()}"
        )

    def _lose(self, each: _Placed, why: str, first: bool) -> None:
        """Forget a replica, which Ray may not have noticed yet.

        Raises:
            ClusterError: it is one of the first, or the last that could be started.
        """
        began = each.phase is _Phase.SERVING
        named = each.report.address or f"on {each.node or 'a node'}"
        self._kill([each])
        if each.phase is _Phase.STOPPING:
            return
        if first:
            raise ClusterError(f"a replica {named} did not start: {why}")
        settled = began and time.monotonic() - each.serving_since > SETTLED_SECONDS
        self._failures = 0 if settled else self._failures + 1
        if self._failures < TRIES:
            self._remark(f"lost the replica {named}: {why}; placing another")
            return
        if not self._placed:
            raise ClusterError(
                f"{TRIES} replicas in a row did not start or ended at once; the last {named}: {why}"
            )
        self._remark(
            f"{TRIES} replicas in a row did not start or ended at once, the last {named}: {why}; going on "
            f"with {counted(len(self._placed), 'replica')}"
        )
        self._wanted = len(self._placed)
        self._failures = 0

    def _kill(self, some: Iterable[_Placed]) -> None:
        for each in list(some):
            self._placed.remove(each)
            with suppress(RayError):
                ray.kill(each.actor)

    def _announce(self) -> None:
        if self.addresses != self._announced:
            self._announced = self.addresses
            self._on_change(self._announced)


def name_of(service: str, number: int) -> str:
    """The name of a replica's actor."""
    return f"{service}/{number}"


def replicas(service: str) -> list[str]:
    """The names of the actors of a service, whether they serve or only start."""
    names = [name for name in ray.util.list_named_actors() if name.rpartition("/")[0] == service]
    return sorted(names, key=lambda name: (len(name), name))


def addresses(service: str, seconds: float = 5.0) -> list[str]:
    """The addresses of the replicas that serve and say so in time, in the order in which they were placed."""
    asked: list[Any] = []
    for name in replicas(service):
        try:
            asked.append(ray.get_actor(name).address.remote())
        except (ValueError, RayError):  # it has just ended
            continue
    if not asked:
        return []
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=seconds)
    found = []
    for answer in asked:
        if answer in answered:
            try:
                found.append(ray.get(answer))
            except RayError:
                continue
    return [address for address in found if address]

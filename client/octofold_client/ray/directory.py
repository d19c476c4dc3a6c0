"""Finds the replicas of a service by their names.

Ray's control store knows the names of the actors. Each actor tells the address of its server itself, so a
replica that is gone has no address that could be wrong.
"""

from typing import Any

import ray
from ray.exceptions import RayError


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

"""Chooses the server of each call, in turn, and avoids failed servers. `retry` repeats failed calls."""

import itertools
import logging
import threading
from collections.abc import Sequence

import grpc

_READY = grpc.ChannelConnectivity.READY
_FAILED = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)

_log = logging.getLogger(__name__)


def _servers_to_use(states: Sequence[grpc.ChannelConnectivity]) -> Sequence[int]:
    """Return the indices of the ready addresses.

    If none is ready, return the indices of the addresses that have not failed. If all have failed, return
    all indices.
    """
    ready = [number for number, state in enumerate(states) if state is _READY]
    hopeful = [number for number, state in enumerate(states) if state not in _FAILED]
    return ready or hopeful or range(len(states))


class FailoverRotation:
    """Chooses the server of each call, in turn from the addresses of `_servers_to_use`.

    Args:
        addresses: the addresses, for the log.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._states = [grpc.ChannelConnectivity.IDLE] * len(addresses)
        self._failed = [False] * len(addresses)  # whether each address failed since it was last ready
        self._choices: Sequence[int] = range(len(addresses))
        self._turn = itertools.count()
        self._lock = threading.Lock()  # guards the states; `_choices` is replaced as a whole

    def next_server(self) -> int:
        """Return the index of the address to use next."""
        choices = self._choices
        return choices[next(self._turn) % len(choices)]

    def set_state(self, number: int, state: grpc.ChannelConnectivity) -> None:
        """Record the state of the address with index `number`. Log if it fails or becomes ready again."""
        with self._lock:
            self._states[number] = state
            self._choices = _servers_to_use(self._states)
            was_failed, has_failed = self._failed[number], state in _FAILED
            self._failed[number] = has_failed or (was_failed and state is not _READY)
        if has_failed and not was_failed:
            _log.warning(
                "%s is not ready or cannot be reached; calls avoid it if possible", self._addresses[number]
            )
        elif was_failed and state is _READY:
            _log.warning("%s is ready again", self._addresses[number])

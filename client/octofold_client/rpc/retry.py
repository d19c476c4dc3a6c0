"""The retry policy: after which errors, how soon and how often a failed call is retried.

No call of this client changes anything on the server, so every call is safe to retry.
"""

import random
import sys
from dataclasses import dataclass

from octofold_client.errors import DeadlinePassed, OctofoldError, QueueFull, Unavailable

_MOST_DOUBLINGS = 100
"""Maximum number of times that a wait doubles. More doublings could overflow."""


@dataclass(frozen=True)
class RetryPolicy:
    """When to retry a failed call. Retries never exceed the deadline of the call.

    After UNAVAILABLE, the wait doubles each time, up to `largest_wait_seconds`. After a full queue, it is the
    delay that the server asks for. With `silence`, a passed deadline is retried like UNAVAILABLE. Each wait
    is extended at random by up to a half, so that many clients do not return together.
    """

    attempts: int = 6
    """Maximum number of attempts, including the first one."""
    first_wait_seconds: float = 0.1
    largest_wait_seconds: float = 2.0
    silence: bool = False
    """Whether to retry if the server did not answer before the deadline."""

    def wait_seconds(self, error: OctofoldError, attempt: int) -> float | None:
        """Return the time to wait after attempt number `attempt` (from 1) has failed; None to give up."""
        if attempt >= self.attempts:
            return None
        if isinstance(error, Unavailable) or (self.silence and isinstance(error, DeadlinePassed)):
            doublings = min(attempt - 1, _MOST_DOUBLINGS)
            wait = min(self.largest_wait_seconds, self.first_wait_seconds * 2.0**doublings)
        elif isinstance(error, QueueFull):
            wait = error.retry_after_seconds
        else:
            return None
        return wait * random.uniform(1.0, 1.5)


DEFAULT_RETRY = RetryPolicy()
NO_RETRY = RetryPolicy(attempts=1)
FIRST_CALL_RETRY = RetryPolicy(attempts=3)
"""Policy for the first call to a server, which must fail soon if no server answers."""
EVALUATION_RETRY = RetryPolicy(attempts=sys.maxsize, largest_wait_seconds=3.2, silence=True)
"""Policy for the calls of an evaluation. `evaluation/playing.py` gives up a server after the time of
`--patience`, so the number of attempts is not limited."""

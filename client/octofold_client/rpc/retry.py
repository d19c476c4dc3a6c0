"""When a failed call is made again: after which errors, how soon and how often.

No call of this client changes anything on the server, so every call is safe to repeat.
"""

import random
from dataclasses import dataclass

from octofold_client.errors import DeadlinePassed, OctofoldError, QueueFull, Unavailable


@dataclass(frozen=True)
class RetryPolicy:
    """When to retry a failed call, always within its deadline.

    UNAVAILABLE is retried after a wait that doubles each time, and a full queue after the delay that the
    server asks for. With `silence`, so is a deadline that has passed. Each wait is extended at random by up
    to a half, so that many clients do not return together.
    """

    attempts: int = 6
    first_wait_seconds: float = 0.1
    largest_wait_seconds: float = 2.0
    silence: bool = False
    """Whether to ask a server again that did not answer in time."""

    def wait_seconds(self, error: OctofoldError, attempt: int) -> float | None:
        """Time to wait after failed attempt number `attempt` (from 1); None to give up."""
        if attempt >= self.attempts:
            return None
        if isinstance(error, Unavailable) or (self.silence and isinstance(error, DeadlinePassed)):
            wait = min(self.largest_wait_seconds, self.first_wait_seconds * 2.0 ** (attempt - 1))
        elif isinstance(error, QueueFull):
            wait = error.retry_after_seconds
        else:
            return None
        return wait * random.uniform(1.0, 1.5)


DEFAULT_RETRY = RetryPolicy()
NO_RETRY = RetryPolicy(attempts=1)
FIRST_CALL_RETRY = RetryPolicy(attempts=3)
"""For the first call to a server, which must fail soon if no server answers."""
EVALUATION_RETRY = RetryPolicy(attempts=7, largest_wait_seconds=5.0, silence=True)
"""For a server that plays games. It gives the pace; the patience of an evaluation ends it."""

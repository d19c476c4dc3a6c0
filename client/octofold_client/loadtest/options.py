"""The options of a load test: loads or limit, form of the calls, and duration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.boards import Boards, played_boards, replayed_boards
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.loads import Closed, Load, Open
from octofold_client.loadtest.steps import Limit, Plan


@dataclass(frozen=True)
class LoadTestOptions:
    """The options of a load test.

    Raises:
        LoadTestError: the options contradict each other.
    """

    concurrency: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    """Numbers of callers of the closed loops to run one after the other; ignored with `rates` or `limit`."""
    rates: tuple[float, ...] = ()
    """Calls per second of the open loops to run one after the other; ignored with `limit`."""
    limit: Limit | None = None
    """Limit to keep in a search for the highest rate."""
    poisson: bool = True
    """Whether an open loop sends its calls at random times; otherwise evenly."""
    think_seconds: float = 0.0
    """Average pause of the callers of a closed loop before each call."""
    form: Form = Form("unary")  # noqa: RUF009 - frozen
    games: bool = False
    """Whether each caller plays its own games."""
    replays: Path | None = None
    """Replay file to take the boards from; None for a greedy player's games."""
    processes: int = 1
    plan: Plan = Plan()  # noqa: RUF009 - frozen
    timeout_seconds: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.rates or self.limit is not None) and (self.games or self.think_seconds):
            flag = "--games" if self.games else "--think"
            raise LoadTestError(
                f"{flag} needs callers that wait for their answers: use it with --concurrency, not with "
                "--rate or --slo"
            )
        if self.games and self.replays is not None:
            raise LoadTestError("--games and --boards exclude each other")

    @property
    def loads(self) -> list[Load]:
        """The loads to run one after the other; not used with `limit`."""
        if self.rates:
            return [Open(rate, self.poisson) for rate in self.rates]
        return [Closed(callers, self.think_seconds) for callers in self.concurrency]

    @property
    def kind(self) -> str:
        """The kind of test in one word, for the name of its folder."""
        if self.limit is not None:
            return "slo"
        return "rate" if self.rates else "games" if self.games else "concurrency"

    def boards(self, largest_exponent: int) -> tuple[Boards | None, str]:
        """The boards `[M, 16]` and a description of their origin; None if the callers play games.

        Raises:
            LoadTestError: the replay file contains no board that the model accepts.
            ReplayError: the replay file is damaged.
            OSError: the replay file cannot be read.
        """
        if self.games:
            return None, f"games of seed {self.seed}, played during the test"
        if self.replays is None:
            return played_boards(largest_exponent, seed=self.seed), "positions of a greedy player's games"
        boards = replayed_boards(self.replays, largest_exponent, seed=self.seed)
        return boards, f"positions of the games in {self.replays}"

"""What a load test does: its loads or its limit, the form of its calls, and how long each load is held."""

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
    """The options of a load test. Raises `LoadTestError` for those that contradict each other."""

    concurrency: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    """Closed loops of so many callers, one after the other; not used with `rates` or a `limit`."""
    rates: tuple[float, ...] = ()
    """Open loops of so many calls a second, one after the other; not used with a `limit`."""
    limit: Limit | None = None
    """Search for the highest rate that keeps it."""
    poisson: bool = True
    """Whether the calls of an open loop come at random; else at equal distances."""
    think_seconds: float = 0.0
    """How long the callers of a closed loop pause before each call, on average."""
    form: Form = Form("unary")  # noqa: RUF009 - frozen
    games: bool = False
    """Every caller plays games of its own."""
    replays: Path | None = None
    """A replay file whose positions are asked about; None: those of a greedy player's games."""
    processes: int = 1
    plan: Plan = Plan()  # noqa: RUF009 - frozen
    timeout_seconds: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.rates or self.limit is not None) and (self.games or self.think_seconds):
            waits = "--games" if self.games else "--think"
            raise LoadTestError(
                f"{waits} needs callers who wait for their answers; --rate and --slo have none, "
                "use --concurrency"
            )
        if self.games and self.replays is not None:
            raise LoadTestError("--games makes its own boards; --boards is for a test without it")

    @property
    def loads(self) -> list[Load]:
        """The loads to hold one after the other; of no use with a `limit`."""
        if self.rates:
            return [Open(rate, self.poisson) for rate in self.rates]
        return [Closed(callers, self.think_seconds) for callers in self.concurrency]

    @property
    def kind(self) -> str:
        """One word, so that the results of tests of one kind are found together."""
        if self.limit is not None:
            return "slo"
        return "rate" if self.rates else "games" if self.games else "concurrency"

    def boards(self, largest_exponent: int) -> tuple[Boards | None, str]:
        """The boards `[M, 16]` to ask about, and in words where they come from; None if callers play.

        Raises as `replayed_boards` does.
        """
        if self.games:
            return None, f"games of seed {self.seed}, as they go"
        if self.replays is None:
            return played_boards(largest_exponent, seed=self.seed), "positions of a greedy player's games"
        boards = replayed_boards(self.replays, largest_exponent, seed=self.seed)
        return boards, f"positions of the games in {self.replays}"

"""Compares further distillation of a distilled network with PPO in the same CPU time.

    python bench/fine_tuning.py --distil training/recipes/swift.toml --ppo training/recipes/swift-ppo.toml

Both start from the checkpoint that the PPO recipe names. They take turns, so a slow minute affects both. Each
one stops when it has used its CPU time, which includes its preparations, and its learning rate decays over
that time. The initial network and both results then play the same number of games, with one view of each
board and with a vote over all eight.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from harness import report
from octofold_game.symmetries import CELLS, MOVES
from octofold_players.ntuple import NTupleNetwork
from octofold_training import checkpoints
from octofold_training.games.environment import MoveTable, spawn
from octofold_training.learners.distil import Distillation, DistilOptions
from octofold_training.learners.ppo import PPO, PPOOptions
from octofold_training.networks.encoding import fastest_type
from octofold_training.recipes import read_recipe
from octofold_training.run.progress import ProgressLine
from torch import Tensor, nn

CPU = torch.device("cpu")


class Arm:
    """One of the two ways to train; it counts the CPU seconds of its own turns."""

    def __init__(self, run: Distillation | PPO, learn: Callable[[], object], budget_seconds: float) -> None:
        self.run = run
        self.cpu_seconds = 0.0
        self._learn = learn
        self._budget_seconds = budget_seconds

    def do(self, work: Callable[[], object]) -> None:
        """Run `work` and add its CPU time."""
        start = time.process_time()
        work()
        self.cpu_seconds += time.process_time() - start

    def learn(self) -> None:
        """Take one turn."""
        part = self.cpu_seconds / self._budget_seconds
        if self.run.positions:  # the schedule must end with the budget on a machine of any speed
            self.run.options = replace(self.run.options, positions=self.run.positions / part)
        self.do(self._learn)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--distil", type=Path, required=True, help="recipe with a [distil] table")
    parser.add_argument("--ppo", type=Path, required=True, help="recipe with a [ppo] table")
    parser.add_argument(
        "--teacher", type=Path, default=Path("models/ntuple/2"), help="n-tuple network (default: %(default)s)"
    )
    parser.add_argument(
        "--cpu-minutes",
        type=float,
        default=30.0,
        help="CPU time of each way to train, summed over threads (default: %(default)s)",
    )
    parser.add_argument(
        "--games", type=int, default=200, help="games of each network and view count (default: %(default)s)"
    )
    parser.add_argument("--keep", type=Path, help="folder to save both results to, as checkpoints")
    options = parser.parse_args()

    ppo_options = read_recipe(options.ppo).options("ppo", PPOOptions)
    distil_options = read_recipe(options.distil).options("distil", DistilOptions)
    teacher = NTupleNetwork.load(options.teacher)
    start = checkpoints.load(Path(ppo_options.start))

    distillation = Distillation(distil_options, start.architecture, teacher)
    for network in (distillation.network, distillation.averaged.module):
        network.load_state_dict(start.network.state_dict())
    ppo = PPO(ppo_options, start, CPU)
    budget = options.cpu_minutes * 60
    arms = {
        "distillation": Arm(distillation, lambda: distillation.learn(updates=20), budget),
        "PPO": Arm(ppo, ppo.learn, budget),
    }
    arms["distillation"].do(lambda: distillation.pool.warm_up(teacher))
    arms["PPO"].do(ppo.warm_up)
    _take_turns(arms, budget)

    networks = {"start": start.network, **{name: arm.run.averaged.module for name, arm in arms.items()}}
    if options.keep:
        for name in arms:
            training = {"method": f"{name} for {options.cpu_minutes:g} CPU minutes", "start": start.sha256}
            checkpoints.save(options.keep / name.lower(), networks[name], start.architecture, training)
    exponents = start.architecture["exponents"]
    rows, figures = [], {}
    for name, network in networks.items():
        arm = arms.get(name)
        seconds, positions = (arm.cpu_seconds, arm.run.positions) if arm else (0.0, 0)
        strength = {views: _strength(play(network, exponents, options.games, views)) for views in (1, 8)}
        shown = [f"{average:,.0f} ± {error:,.0f}" for average, error in strength.values()]
        rows.append((name, f"{seconds:,.0f}", f"{positions / 1e6:.2f}M", *shown))
        figures[name] = {"cpu_seconds": seconds, "positions": positions, "average_and_error": strength}
    columns = ["network", "CPU s", "positions", "1 view", "8 views"]
    report("fine-tuning", columns, rows, games=options.games, start=ppo_options.start, networks=figures)


def _take_turns(arms: dict[str, Arm], budget_seconds: float) -> None:
    """Let the arm with the least CPU time learn until all arms have used their budget."""
    with ProgressLine() as line:
        while (arm := min(arms.values(), key=lambda arm: arm.cpu_seconds)).cpu_seconds < budget_seconds:
            arm.learn()
            spent = (
                f"{name} {arm.cpu_seconds:,.0f} CPU s, {arm.run.positions / 1e6:.2f}M positions"
                for name, arm in arms.items()
            )
            line.show("  ".join(spent))


def _strength(scores: Tensor) -> tuple[float, float]:
    """The average score and half the width of its 95% interval."""
    return scores.mean().item(), 1.96 * scores.std().item() / math.sqrt(len(scores))


@torch.no_grad()
def play(network: nn.Module, exponents: int, games: int, views: int, seed: int = 1) -> Tensor:
    """The scores `[games]` of greedy games by vote of the first `views` symmetries.

    The larger mean probability breaks ties.
    """
    table, generator = MoveTable(CPU), torch.Generator().manual_seed(seed)
    one_hot = torch.eye(exponents, dtype=fastest_type())
    cells, moves_on_view = torch.from_numpy(CELLS[:views]), torch.from_numpy(MOVES[:views])

    def spawned(boards: Tensor) -> Tensor:
        return spawn(boards, torch.rand(len(boards), 2, generator=generator))

    network.eval()
    total = torch.zeros(games)
    playing = torch.arange(games)
    boards = spawned(spawned(torch.zeros(games, 16, dtype=torch.uint8)))
    while len(playing):
        legal = table.legal(boards)
        inputs = one_hot[boards[:, cells].long()].view(-1, 4, 4, exponents).permute(0, 3, 1, 2)
        logits = (
            network(inputs).float().view(-1, views, 4).gather(2, moves_on_view.expand(len(boards), -1, -1))
        )
        probabilities = logits.masked_fill(~legal[:, None], -math.inf).softmax(dim=2)
        votes = nn.functional.one_hot(probabilities.argmax(dim=2), 4).sum(dim=1)
        boards, lines = table.slide(boards, (votes + probabilities.mean(dim=1) / 2).argmax(dim=1))
        total[playing] += table.points[lines].sum(dim=1)
        grown = (boards >= exponents).any(dim=1)
        boards = spawned(boards)
        goes_on = ~grown
        goes_on[~grown] = table.legal(boards[~grown]).any(dim=1)
        boards, playing = boards[goes_on], playing[goes_on]
    return total


if __name__ == "__main__":
    main()

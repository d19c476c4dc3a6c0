"""What helps a distilled network more in the same CPU time: further distillation, or PPO?

    python bench/fine_tuning.py --distil training/recipes/swift.toml --ppo training/recipes/swift-ppo.toml

Both go on from the checkpoint that the PPO recipe starts from, in turns, so that a slow minute hits both.
Each stops when it has used its CPU seconds, preparations included, and its learning rate falls over that
time. Then the network at the start and both results play the same number of games, on one view of each board
and voting over all eight.
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
from octofold_training.distil import Distillation, DistilOptions
from octofold_training.encoding import fastest_type
from octofold_training.environment import MoveTable, spawn
from octofold_training.ppo import PPO, PPOOptions
from octofold_training.progress import ProgressLine
from octofold_training.recipes import read_recipe
from torch import Tensor, nn

CPU = torch.device("cpu")


class Arm:
    """One way to go on: counts the CPU seconds of its own turns."""

    def __init__(self, run: Distillation | PPO, learn: Callable[[], object], budget_seconds: float) -> None:
        self.run = run
        self.cpu_seconds = 0.0
        self._learn = learn
        self._budget_seconds = budget_seconds

    def do(self, work: Callable[[], object]) -> None:
        start = time.process_time()
        work()
        self.cpu_seconds += time.process_time() - start

    def learn(self) -> None:
        part = self.cpu_seconds / self._budget_seconds
        if self.run.positions:  # the schedule ends with the budget, however fast the machine is
            self.run.options = replace(self.run.options, positions=self.run.positions / part)
        self.do(self._learn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--distil", type=Path, required=True, help="recipe with a table [distil]")
    parser.add_argument("--ppo", type=Path, required=True, help="recipe with a table [ppo]")
    parser.add_argument("--teacher", type=Path, default=Path("runs/teacher"))
    parser.add_argument("--cpu-minutes", type=float, default=30.0, help="of each, over all threads")
    parser.add_argument(
        "--games", type=int, default=200, help="that each network plays, on one view and on 8"
    )
    parser.add_argument("--keep", type=Path, help="folder for both results as checkpoints")
    options = parser.parse_args()

    ppo_options = read_recipe(options.ppo).options("ppo", PPOOptions)
    distil_options = read_recipe(options.distil).options("distil", DistilOptions)
    teacher = NTupleNetwork.load(options.teacher)
    start = checkpoints.load(Path(ppo_options.start))

    distillation = Distillation(distil_options, start.architecture, teacher)
    for network in (distillation.student, distillation.averaged.module):
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
    """Until all have used their CPU seconds, let the one learn that has used the fewest."""
    with ProgressLine() as line:
        while (arm := min(arms.values(), key=lambda arm: arm.cpu_seconds)).cpu_seconds < budget_seconds:
            arm.learn()
            spent = (
                f"{name} {arm.cpu_seconds:,.0f} CPU s, {arm.run.positions / 1e6:.2f}M positions"
                for name, arm in arms.items()
            )
            line.show("  ".join(spent))


def _strength(scores: Tensor) -> tuple[float, float]:
    """The average score and half its 95% interval."""
    return scores.mean().item(), 1.96 * scores.std().item() / math.sqrt(len(scores))


@torch.no_grad()
def play(network: nn.Module, exponents: int, games: int, views: int, seed: int = 1) -> Tensor:
    """Scores `[games]` of greedy games by the votes of the first `views` symmetries; ties by probability."""
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

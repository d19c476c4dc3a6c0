"""Train the network to play like the teacher, in plain PyTorch without Octofold.

python train.py --positions 200000          # writes network.safetensors and network.onnx
"""

from __future__ import annotations

import argparse
import logging
import warnings

import torch
from network import PLANES, ChannelsLast, ResidualNetwork
from safetensors.torch import save_file
from torch.nn import functional

from game import play

UP, DOWN, LEFT, RIGHT = range(4)  # as in game.MOVES


def main() -> None:
    """Play games, train on their moves and save the network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--positions", type=int, default=200_000, help="boards to train on (default: %(default)s)"
    )
    options = parser.parse_args()

    torch.manual_seed(1)
    print(f"playing {options.positions:,} positions")
    boards, moves = in_any_view(*(torch.from_numpy(array) for array in play(options.positions)))
    network = ResidualNetwork()
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3)
    batches = torch.randperm(len(boards)).split(256)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=len(batches))
    for number, rows in enumerate(batches):
        loss = functional.cross_entropy(network(one_hot(boards[rows])), moves[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if number % 100 == 0 or number == len(batches) - 1:
            print(f"{number + 1} of {len(batches)} batches, loss {loss.item():.3f}")
    network.eval()
    save_file(network.state_dict(), "network.safetensors")
    example = one_hot(boards[:1]).permute(0, 2, 3, 1).contiguous()
    channels_last = ChannelsLast(network).eval()
    # The exporter warns that torchvision is missing, which this network does not use, and of its own parts.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(
            channels_last, (example,), "network.onnx", dynamo=True, external_data=False, verbose=False
        )
    print(
        "wrote network.safetensors and network.onnx; next, in this folder:\n"
        "octofold-export --onnx network.onnx --name mine"
    )


def in_any_view(boards: torch.Tensor, moves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The boards `[N, 4, 4]`, turned and mirrored at random, with their moves `[N]`.

    The teacher keeps its tiles in one corner. A network that has seen no other has nothing to say about the
    other views of a board; an export asks all eight.
    """
    quarter = torch.tensor(
        [LEFT, RIGHT, DOWN, UP]
    )  # what up, down, left and right become, turned to the left
    mirrored = torch.tensor([UP, DOWN, RIGHT, LEFT])
    for change, become in (
        (lambda some: some.rot90(1, (1, 2)), quarter),
        (lambda some: some.rot90(2, (1, 2)), quarter[quarter]),
        (lambda some: some.flip(2), mirrored),
    ):
        rows = torch.rand(len(boards)) < 0.5
        boards[rows] = change(boards[rows])
        moves[rows] = become[moves[rows]]
    return boards, moves


def one_hot(boards: torch.Tensor) -> torch.Tensor:
    """Exponents `[N, 4, 4]` to planes `[N, 14, 4, 4]`."""
    return functional.one_hot(boards.clamp(max=PLANES - 1), PLANES).permute(0, 3, 1, 2).float()


if __name__ == "__main__":
    main()

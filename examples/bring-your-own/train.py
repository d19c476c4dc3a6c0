"""Trains a network to play like the teacher, in plain PyTorch without Octofold.

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
        "--positions", type=int, default=200_000, help="number of boards to train on (default: %(default)s)"
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
    # The exporter warns about its own code, and that torchvision is missing, which this network does not use.
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
    """Turn and mirror boards `[N, 4, 4]` at random; return them with their moves `[N]`.

    The teacher keeps its large tiles in one corner. A network that has seen no other corner would play badly
    on most of the eight views of a board, which an exported network may use.
    """
    # the moves that up, down, left and right become when a board is turned to the left
    quarter = torch.tensor([LEFT, RIGHT, DOWN, UP])
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
    """Encode exponents `[N, 4, 4]` as one-hot planes `[N, 14, 4, 4]`."""
    return functional.one_hot(boards.clamp(max=PLANES - 1), PLANES).permute(0, 3, 1, 2).float()


if __name__ == "__main__":
    main()

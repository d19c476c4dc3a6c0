"""Plays one evaluation as tasks of Ray, and puts its slices together."""

import argparse
from pathlib import Path

import ray


@ray.remote(max_retries=20)  # a lost task starts again, perhaps elsewhere, and continues in its folder
def play(target, model, games, seed, number, slices, folder):
    from octofold_client import evaluate

    evaluate(target, folder, model=model, games=games, seed=seed, slice=(number, slices))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="127.0.0.1:50051", help="address of the servers")
    parser.add_argument("--model", default="", help="model of the servers (default: their default model)")
    parser.add_argument("--games", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slices", type=int, default=16)
    parser.add_argument("--out", type=Path, required=True, help="folder that all machines share")
    flags = parser.parse_args()
    ray.init()
    # Ray's tasks run in other folders, so the path must be absolute.
    out = flags.out.resolve()
    tasks = [
        play.remote(
            flags.target, flags.model, flags.games, flags.seed, number, flags.slices, str(out / str(number))
        )
        for number in range(1, flags.slices + 1)
    ]
    from octofold_client import merge

    print(merge(ray.get(tasks), out / "merged"))


if __name__ == "__main__":
    main()

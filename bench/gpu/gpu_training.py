"""Trains a student on a GPU in slices, from a bare checkout, and packs what it has into small files.

    python bench/gpu/gpu_training.py --disk /var/tmp/octofold --minutes 9 --out OUT
    python bench/gpu/gpu_training.py --join OUT --checkpoint runs/joined

The same command goes on with the run whose state is in `--disk`, until the recipe's positions are reached.
OUT gets its history, its curves and its checkpoint, as a tar file in pieces of at most 15 MiB. Wherever they
were carried, the second command joins them. The last line is JSON. Games and the teacher's tables are on the
GPU, too (`octofold_training.learners.device_distil`); without a GPU, everything runs on the CPU, slowly.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from gpu import ROOT, use_this_checkout

_PIECE = "checkpoint.tar."


def main() -> int:
    """Run the benchmark; returns the exit code."""
    use_this_checkout()
    options = _parse()
    try:
        return join(options.join, options.checkpoint) if options.join else train(options)
    except ModuleNotFoundError as error:
        how = "install the extra `training`, or put a folder with it into PYTHONPATH"
        print(f"bench/gpu/gpu_training.py: {error.name} is missing; {how}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"bench/gpu/gpu_training.py: {error}", file=sys.stderr)
        return 1


def train(options: argparse.Namespace) -> int:
    """Train for some minutes, pack and report; returns the exit code of `octofold-train`."""
    from harness import report
    from octofold_training import cli

    run = options.disk / options.recipe.stem
    checkpoint = run / "checkpoint"
    command = ["student", str(options.recipe), "--teacher", str(options.teacher), "--minutes"]
    command += [str(options.minutes), "--state", str(run), "--checkpoint", str(checkpoint)]
    code = cli.main(command + (["--device", options.device] if options.device else []))
    if not checkpoint.exists():
        return code or 1
    options.out.mkdir(parents=True, exist_ok=True)
    for name in ("history.jsonl", "curves.png"):
        (options.out / name).write_bytes((run / name).read_bytes())
    pieces = pack(checkpoint, options.out, options.piece_bytes)
    latest = json.loads((run / "history.jsonl").read_text().splitlines()[-1])
    figures = {"positions": latest["positions"], "positions_per_second": latest["positions_per_second"]}
    figures |= {"agreement": latest["accuracy"], "regret": latest["regret"], "seconds": latest["seconds"]}
    rows = [(name, f"{value:,}") for name, value in figures.items()]
    report(f"{options.recipe.stem}, trained in slices", ["what", "figure"], rows, **figures, pieces=pieces)
    return code


def pack(checkpoint: Path, out: Path, piece_bytes: int) -> int:
    """Write a checkpoint into `out` as pieces of a tar file, and return how many they are."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for file in sorted(checkpoint.iterdir()):
            tar.add(file, file.name)
    for old in out.glob(f"{_PIECE}*"):
        old.unlink()
    content = packed.getvalue()
    starts = range(0, len(content), piece_bytes)
    for number, start in enumerate(starts):
        (out / f"{_PIECE}{number:03}").write_bytes(content[start : start + piece_bytes])
    return len(starts)


def join(folder: Path, checkpoint: Path) -> int:
    """Unpack the pieces in `folder` as `checkpoint`.

    Raises:
        ValueError: there are no pieces, or what they hold is damaged; an older checkpoint stays as it was.
    """
    from octofold_training import checkpoints

    pieces = sorted(folder.glob(f"{_PIECE}*"))
    if not pieces:
        raise ValueError(f"{folder} has no {_PIECE}000")
    with tempfile.TemporaryDirectory() as unpacked:
        try:
            with tarfile.open(fileobj=io.BytesIO(b"".join(piece.read_bytes() for piece in pieces))) as tar:
                tar.extractall(unpacked, filter="data")
            found = checkpoints.load(Path(unpacked))
        except (tarfile.TarError, checkpoints.CheckpointError) as error:
            raise ValueError(f"{folder}: a piece is missing or damaged ({error})") from error
        shutil.copytree(unpacked, checkpoint, dirs_exist_ok=True)
    print(f"{checkpoint}: {found.training['positions']:,} positions")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    recipe = ROOT / "training" / "recipes" / "flagship.toml"
    parser.add_argument("--recipe", type=Path, default=recipe, help="recipe (default: flagship.toml)")
    teacher = ROOT / "models" / "ntuple" / "2"
    parser.add_argument("--teacher", type=Path, default=teacher, help="n-tuple network (models/ntuple/2)")
    parser.add_argument(
        "--disk", type=Path, default=Path("runs"), help="folder for the state (default: runs)"
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="length of a slice (default: 9)")
    parser.add_argument(
        "--out", type=Path, default=Path("results/gpu"), help="folder for what to take along (results/gpu)"
    )
    parser.add_argument(
        "--piece-bytes", type=int, default=15 << 20, metavar="N", help="size of a piece (default: 15 MiB)"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(default: cuda, if torch can use it)")
    parser.add_argument("--join", type=Path, metavar="DIR", help="join the pieces in DIR instead")
    parser.add_argument("--checkpoint", type=Path, default=Path("runs/joined"), help="where --join writes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

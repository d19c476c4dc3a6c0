"""Measures a model on a GPU, direct and served, after checking its answers against fp32 on the CPU.

    python bench/gpu.py --model cnn5
    python bench/gpu.py --model cnn5 --tensorrt /tmp/engines

Each variant is checked before it is timed: it answers batches of every size and of one board less, and its
moves must agree with those of fp32 on the CPU, up to a limit for its precision. `--device cpu` tries out the
benchmark on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import grpc
import numpy as np
from harness import interleave, medians, report
from numpy.typing import NDArray
from octofold_client.rpc.local_server import LocalServer
from octofold_game.model import Card, Precision
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.backend import Backend, Layout
from octofold_server.backends.onnx_backend import batch_sizes, onnx_lanes
from octofold_server.backends.onnx_session import cuda_is_available
from octofold_server.models.layouts import default_layout
from octofold_server.models.repository import find_versions, read_card, read_model, read_tensors
from octofold_server.models.tuning import boards_per_second, random_boards
from octofold_server.models.tuning_file import device_name

LOWEST_AGREEMENT = {"fp32": 0.999, "int8": 0.99, "fp16": 0.99}
"""Smallest share of moves that agree with fp32 on the CPU; rounding may decide near ties differently."""

CALLERS = 8


@dataclass(frozen=True)
class Variant:
    """A file of the model and how the device runs it."""

    name: str
    precision: Precision
    layout: Layout
    flags: tuple[str, ...] = ()
    "flags of `octofold-serve` for this variant"


def main() -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--model", default="cnn5")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument(
        "--tensorrt", type=Path, metavar="DIR", help="measure TensorRT, too, and keep its engines in DIR"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="length of one measure in one round (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.device == "cuda" and not cuda_is_available():
        print(
            "bench/gpu.py: onnxruntime finds no GPU; this needs one and octofold[server-gpu]",
            file=sys.stderr,
        )
        return 1

    folder = [version for version in find_versions(options.models) if version.name == options.model][-1]
    card, _ = read_card(folder)
    variants = list(_variants(card, options.device, options.tensorrt))
    largest = max(variant.layout.max_batch_size for variant in variants)
    boards = random_boards(4 * largest)
    expected = _answers(_lanes(folder.path, card, Variant("", "fp32", default_layout("cpu"))), boards, 32)

    lanes: dict[str, Sequence[Backend]] = {}
    agreement: dict[str, float] = {}
    for variant in variants:
        lanes[variant.name] = _lanes(folder.path, card, variant)
        agreement[variant.name] = min(
            float(np.mean(_answers(lanes[variant.name], boards[: 8 * count], count) == expected[: 8 * count]))
            for size in batch_sizes(variant.layout.max_batch_size)
            for count in {size, max(1, size - 1)}
        )
        if agreement[variant.name] < LOWEST_AGREEMENT[variant.precision]:
            print(
                f"bench/gpu.py: {variant.name} agrees with fp32 on the CPU in only "
                f"{agreement[variant.name]:.2%} of the moves, not in "
                f"{LOWEST_AGREEMENT[variant.precision]:.1%}",
                file=sys.stderr,
            )
            return 1

    measures = {
        f"{variant.name}, direct, batch {size}": partial(
            boards_per_second, lanes[variant.name], boards[:size], options.seconds
        )
        for variant in variants
        for size in batch_sizes(variant.layout.max_batch_size)[-5:]
    }
    found = medians(interleave(measures, options.rounds))
    lanes.clear()  # a server should have the device to itself
    measures.clear()  # they hold the lanes, too
    for variant in variants:
        arguments = ("--device", options.device, "--precision", variant.precision, *variant.flags)
        with LocalServer(options.models, ("--default-model", options.model, *arguments)) as server:
            name = f"{variant.name}, served, {CALLERS} callers of {variant.layout.max_batch_size}"
            found[name] = _served(server.target, boards[: variant.layout.max_batch_size], options.seconds)
    report(
        f"{options.model} on {device_name(options.device)}",
        ["what", "boards/s"],
        [(name, f"{value:,.0f}") for name, value in found.items()]
        + [
            (f"{name}, lowest agreement with fp32 on the CPU", f"{share:.4f}")
            for name, share in agreement.items()
        ],
        boards_per_second=found,
        agreement=agreement,
    )
    return 0


def _variants(card: Card, device: str, engines: Path | None) -> Iterator[Variant]:
    layout = default_layout(device)
    yield Variant("fp32", "fp32", layout)
    if device == "cpu":
        yield from (Variant(name, name, layout) for name in card.precisions if name != "fp32")
        return
    yield Variant("fp32 with TF32", "fp32", replace(layout, tf32=True), ("--tf32",))
    if "fp16" not in card.precisions:
        print("the model has no fp16: export it with --precisions fp32,int8,fp16", file=sys.stderr)
        return
    yield Variant("fp16", "fp16", layout)
    if engines is not None:
        engines.mkdir(parents=True, exist_ok=True)
        yield Variant(
            "fp16, TensorRT", "fp16", replace(layout, engines=engines), ("--tensorrt", str(engines))
        )


def _lanes(folder: Path, card: Card, variant: Variant) -> Sequence[Backend]:
    file = card.precisions[variant.precision]
    lanes = onnx_lanes(read_model(folder, file), variant.layout, read_tensors(folder, file))
    for lane in lanes:
        lane.warm_up()
    return lanes


def _answers(lanes: Sequence[Backend], boards: NDArray[np.uint8], batch: int) -> NDArray[np.int8]:
    firsts = range(0, len(boards), batch)
    return np.concatenate([lanes[0].run(boards[first : first + batch]).moves for first in firsts])


def _served(target: str, boards: NDArray[np.uint8], seconds: float) -> float:
    """Boards per second of callers that each call again as soon as they have an answer."""
    answered = [0] * CALLERS
    request = pb.NextMovesRequest(boards=boards.tobytes())
    with grpc.insecure_channel(target) as channel:
        stub = OctofoldServiceStub(channel)
        stub.NextMoves(request)
        begin = time.perf_counter()

        def call(number: int) -> None:
            while time.perf_counter() < begin + seconds:
                answered[number] += len(stub.NextMoves(request).moves)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(answered) / (time.perf_counter() - begin)


if __name__ == "__main__":
    sys.exit(main())

"""The parts of `gpu.py`. They run one after another, each in its own process."""

from __future__ import annotations

import argparse
import ctypes
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from gpu_direct import Figures, agreement, speed
from gpu_served import Load, Service, throughput
from harness import report
from octofold_game.contract.model import Precision
from octofold_game.system.processors import cpu_name, usable_cores
from octofold_server.backends.cuda import why_no_cuda
from octofold_server.models.repository import VersionFolder, versions_by_name

PARTS = ("check", "direct", "served", "latency")
LOADS = ("packed:4096/8", "packed:1024/16", "stream/256", "unary/256")
LONGEST_PART_SECONDS = 420.0
STOP_SECONDS = 30.0
"""Time limit for a process to stop its server."""


Run = Callable[[], Figures]
"""A picklable function that measures the figures of a part of the benchmark."""


def main() -> int:
    """Run the parts, and return the exit code, 1 if a part failed."""
    options = _parse()
    no_gpu = "--device is cpu" if options.device == "cpu" else why_no_cuda()
    device = "cpu" if no_gpu else "cuda"
    device_name = f"{cpu_name()}, {usable_cores()} cores" if no_gpu else gpu_name()
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="octofold-gpu-") as work:
        parts = dict(_parts(options, device, Path(work)))
        found, errors = run_all(parts, options.minutes * 60)
    report(
        f"{', '.join(options.model)} on {device_name}",
        ["part", "what", "figures"],
        [row for name in parts for row in _rows(name, found.get(name, {}), errors.get(name))],
        device=device_name,
        no_cuda=no_gpu,
        figures=found,
        errors=errors,
    )
    return int(bool(errors))


def gpu_name() -> str:
    """Return the name of the first GPU, as the driver reports it."""
    driver, name = ctypes.CDLL("libcuda.so.1"), ctypes.create_string_buffer(256)
    driver.cuInit(0)
    driver.cuDeviceGetName(name, len(name), 0)
    return name.value.decode() or "GPU"


def run_all(parts: Mapping[str, Run], seconds: float) -> tuple[dict[str, Figures], dict[str, str]]:
    """Return the figures of successful parts, and the error of each other part in one line.

    Args:
        parts: the parts in their order, keyed by name.
        seconds: time after which no part begins; 0 for no limit.
    """
    found: dict[str, Figures] = {}
    errors: dict[str, str] = {}
    stop = "the time limit was reached" if seconds else ""
    end = time.monotonic() + (seconds or float("inf"))
    for number, (name, run) in enumerate(parts.items(), 1):
        try:
            if time.monotonic() > end:
                errors[name] = f"not started: {stop}"
                continue
            print(f"[{number}/{len(parts)}] {name}", file=sys.stderr, flush=True)
            found[name] = isolated(run, min(LONGEST_PART_SECONDS, end - time.monotonic() + 60))
        except KeyboardInterrupt:
            errors[name] = stop = "interrupted"
            end = 0.0
        except Exception as error:  # the other parts continue after any error
            errors[name] = " ".join(str(error).split()) or type(error).__name__
            print(f"    {errors[name]}", file=sys.stderr, flush=True)
    return found, errors


def isolated(run: Run, seconds: float) -> Figures:
    """Call `run` in a separate process, and return its result.

    Raises:
        RuntimeError: `run` raised an exception, crashed or took too long.
    """
    context = get_context("spawn")  # a forked process cannot use CUDA or gRPC
    ours, theirs = context.Pipe()
    process = context.Process(target=_send_result, args=(run, theirs))
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise RuntimeError(f"stopped after more than {seconds:.0f} seconds")
        result = ours.recv()
    except EOFError:
        process.join(STOP_SECONDS)
        raise RuntimeError(f"its process ended with exit code {process.exitcode}") from None
    finally:
        if process.is_alive():
            process.join(1)
        if process.is_alive():
            process.terminate()
            process.join(STOP_SECONDS)
            process.kill()
        process.join()
    if isinstance(result, str):
        raise RuntimeError(result)
    figures: Figures = result
    return figures


def _send_result(run: Run, pipe: Connection) -> None:
    signal.signal(signal.SIGTERM, _interrupt)  # raises KeyboardInterrupt, which also stops a running server
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops this process
    try:
        result: Figures | str = run()
    except KeyboardInterrupt:  # the parent no longer waits for the result
        return
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    pipe.send(result)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _parts(options: argparse.Namespace, device: str, work: Path) -> Iterator[tuple[str, Run]]:
    """Yield all selected parts. Parts that check answers come first."""
    by_name = versions_by_name(options.models)
    unknown = [name for name in options.model if name not in by_name]
    if unknown:
        raise SystemExit(f"bench/gpu/gpu.py: {options.models} has no model {unknown[0]}")
    for kind in options.part or PARTS:
        for name in options.model:
            version = by_name[name][-1]
            for what, run in _kinds(options, device, work)[kind](version).items():
                yield f"{kind}: {name}, {what}", run


def _kinds(
    options: argparse.Namespace, device: str, work: Path
) -> dict[str, Callable[[VersionFolder], dict[str, Run]]]:
    seconds = options.seconds
    runnable: tuple[Precision, ...] = ("fp32", "fp16", "int8") if device == "cpu" else ("fp32", "fp16")
    precisions = [each for each in runnable if each in (options.variant or runnable)]
    loads = options.load or [Load.parse(text) for text in LOADS]

    def served(version: VersionFolder, precision: Precision, loads: Sequence[Load]) -> Run:
        service = Service(version, precision, device, tuple(options.flags.split()))
        return partial(throughput, service, loads, seconds)

    def checked(version: VersionFolder, precision: Precision) -> Run:
        return partial(agreement, version, precision, device, options.boards, max(options.batches), work)

    def direct(version: VersionFolder, precision: Precision) -> Run:
        return partial(speed, version, precision, device, options.batches, seconds)

    return {
        "check": lambda version: {each: checked(version, each) for each in precisions},
        "direct": lambda version: {each: direct(version, each) for each in precisions},
        "served": lambda version: {each: served(version, each, loads) for each in precisions},
        "latency": lambda version: {"fp16": served(version, "fp16", [Load("unary", 1)])},
    }


def _rows(name: str, figures: Figures, error: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of one part. Figures of a group share a row."""
    if error is not None:
        yield name, error, ""
    for what, same in groupby(figures.items(), key=lambda figure: figure[0].partition(": ")[0]):
        shown = (f"{key.partition(': ')[2]} {_format_value(key, value)}" for key, value in same)
        yield name, what, ", ".join(shown)
        name = ""


def _format_value(key: str, value: float) -> str:
    if key.endswith("ms"):
        return f"{value:,.2f}"
    return f"{value:,.0f}" if key.endswith("boards/s") else f"{value:.2%}"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/gpu/gpu.py", description="Measure models on a GPU.")
    parser.add_argument(
        "--models", type=Path, default=Path(__file__).parents[2] / "models", help="model repository"
    )
    parser.add_argument(
        "--model", action="append", help="model to measure; repeatable (default: cnn5 and flagship)"
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu"),
        default="auto",
        help="device; cpu tries the command without a GPU (default: auto)",
    )
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="part to run; repeatable (default: all)"
    )
    parser.add_argument(
        "--variant", action="append", help="precision, such as fp16; repeatable (default: all)"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="length of a measurement in seconds (default: %(default)s)"
    )
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="start no part after this many minutes (default: no limit)"
    )
    parser.add_argument(
        "--boards", type=int, default=10_000, help="number of boards to check (default: %(default)s)"
    )
    parser.add_argument(
        "--load",
        action="append",
        type=Load.parse,
        metavar="FORM/CALLERS",
        help=f"load of a server; repeatable (default: {', '.join(LOADS)})",
    )
    parser.add_argument(
        "--batches",
        type=_integers,
        default=(1, 64, 1024, 4096, 16_384),
        metavar="LIST",
        help="batch sizes to measure, such as 1,64",
    )
    parser.add_argument("--flags", default="", help="further flags of octofold-serve, in one argument")
    options = parser.parse_args()
    options.model = options.model or ["cnn5", "flagship"]
    return options


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))

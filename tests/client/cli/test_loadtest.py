"""The command `octofold loadtest` as people run it: what it prints and leaves behind, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from octofold_client.rpc.local_server import LocalServer
from support.commands import octofold
from support.waiting import wait_for

OCTOFOLD = Path(sys.executable).with_name("octofold")
SECONDS = 60
QUICK = ("--ramp", "50ms", "--window", "150ms", "--windows", "3")
PNG = b"\x89PNG\r\n\x1a\n"


def loadtest(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return octofold("loadtest", *QUICK, *arguments, folder=folder)


def failure(*arguments: str, folder: Path) -> str:
    """The one line that the command must fail with."""
    done = loadtest(*arguments, folder=folder)
    assert (done.returncode, done.stdout) == (1, ""), done
    (line,) = done.stderr.splitlines()
    return line.removeprefix("octofold: ")


def result_of(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "loadtest.json").read_text())
    return result


def described_fields() -> set[str]:
    """Of the result and of its steps, by the first column of the documentation's tables."""
    text = (Path(__file__).parents[3] / "docs" / "loadtest.md").read_text()
    return {
        name.strip("` ")
        for line in text.partition("### `loadtest.json`")[2].splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].split(",")
    }


def test_a_closed_loop_prints_a_line_a_step_and_leaves_result_report_and_pictures(
    target: str, games: Path, tmp_path: Path
) -> None:
    arguments = ("--concurrency", "1:2:2x", "--form", "packed:4", "--boards", str(games), "--plots")
    done = loadtest("--target", target, *arguments, folder=tmp_path)
    assert done.returncode == 0, done
    # On a busy machine, lines say now and then how far the test is; they begin with the model.
    told = [line.partition(":")[0] for line in done.stderr.splitlines() if not line.startswith("small ")]
    assert told == ["1 caller", "2 callers"]
    assert done.stdout.startswith(
        "**small version 1, packed:4: calls, boards, and latencies in milliseconds**\n"
    )
    assert "| 2 callers |" in done.stdout
    folder = tmp_path / "results" / "loadtest-small-v1-packed4-concurrency"
    result = result_of(folder)
    assert (result["schema"], result["model"], result["precision"]) == (1, "small", "fp32")
    assert (result["finished"], result["limit"]) == (True, None)
    assert result["boards_from"] == f"positions of the games in {games}/games.replay"
    assert [step["concurrency"] for step in result["steps"]] == [1, 2]
    for step in result["steps"]:
        assert step["boards_per_second"] == pytest.approx(4 * step["calls_per_second"])
        latency = step["latency_ms"]
        order = [latency[name] for name in ("p50", "p90", "p95", "p99", "p99.9", "max")]
        assert order == sorted(order)
        assert order[0] > 0
        assert sum(count for _, count in step["histogram_us"]["buckets"]) == step["calls"]
        server = step["server"]
        assert latency["average"] > server["queue_ms"] + server["inference_ms"] + server["rest_ms"] > 0
        assert step["client_cpu_cores"] > 0
        assert step["errors"] == {}
    assert described_fields() == {*result, *result["steps"][0]} - {"concurrency", "think_seconds"}
    for name in ("latency-against-rate.png", "latency-percentiles.png"):
        assert (folder / name).read_bytes().startswith(PNG)
        assert f"({name})" in (folder / "loadtest.md").read_text()


def test_the_search_ends_with_a_rate_that_holds_and_says_so(target: str, tmp_path: Path) -> None:
    # A limit that only failures break, so that the search has little to try on a machine of any speed.
    arguments = ("--slo", "p50=30s", "--timeout", "2s", "--windows", "1", "--out", "out")
    done = loadtest("--target", target, *arguments, folder=tmp_path)
    assert done.returncode == 0, done
    result = result_of(tmp_path / "out")
    limit = result["limit"]
    assert (limit["percentile"], limit["milliseconds"]) == (50, 30_000)
    first, *tried = result["steps"]
    assert first["concurrency"] == 1
    held = [step["rate"] for step in tried if step["holds"]]
    assert limit["highest_rate"] == max(held)
    assert min(step["rate"] for step in tried if not step["holds"]) <= 1.05 * max(held) * (1 + 1e-9)
    assert "is the highest rate found that keeps p50 of 30000 ms" in done.stdout


def test_ctrl_c_among_clients_that_play_keeps_what_was_measured_and_leaves_no_process(
    target: str, tmp_path: Path
) -> None:
    command: list[str | Path] = [
        OCTOFOLD,
        "loadtest",
        "--target",
        target,
        "--concurrency",
        "1:99:1",
        "--out",
        "out",
    ]
    playing = ["--games", "--think", "5ms", "--form", "packed:8"]
    process = subprocess.Popen(
        [*command, *playing, "--processes", "2", "--ramp", "0s", "--window", "100ms", "--windows", "3"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for((tmp_path / "out" / "loadtest.json").exists, process=process)
        workers = [
            child
            for child in psutil.Process(process.pid).children()
            if "spawn_main" in " ".join(child.cmdline())
        ]
        # A terminal sends it to every process of the group.
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "octofold: interrupted"
    assert "Traceback" not in errors
    assert "| 1 caller " in output
    assert "the test did not finish" in output
    result = result_of(tmp_path / "out")
    assert result["finished"] is False
    assert result["boards_from"] == "games of seed 0, played during the test"
    first = result["steps"][0]
    assert (first["think_seconds"], first["errors"]) == (0.005, {})
    assert first["calls"]
    assert len(workers) == 2
    assert not any(worker.is_running() for worker in workers)


def test_when_the_server_dies_the_test_ends_with_its_last_words_and_keeps_the_rest(
    repository: Path, tmp_path: Path
) -> None:
    with LocalServer(repository) as server:
        command: list[str | Path] = [
            OCTOFOLD,
            "loadtest",
            "--target",
            server.target,
            "--concurrency",
            "1:99:1",
            "--out",
            "out",
        ]
        process = subprocess.Popen(
            [*command, "--ramp", "0s", "--window", "200ms", "--windows", "3"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not (tmp_path / "out" / "loadtest.json").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        assert server.pid is not None
        psutil.Process(server.pid).kill()
        output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, errors
    assert "callers: all calls failed; last error: UNAVAILABLE: " in errors
    assert "Traceback" not in errors
    assert "| 1 caller " in output


def test_several_processes_offer_the_rate_to_a_server_that_asks_for_a_token(
    repository: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("sesame\n")
    arguments = ("--rate", "150", "--arrivals", "constant", "--processes", "2", "--out", "out")
    with LocalServer(repository, ("--tokens", str(token))) as server:
        done = loadtest("--target", server.target, "--token-file", str(token), *arguments, folder=tmp_path)
    assert done.returncode == 0, done
    (step,) = result_of(tmp_path / "out")["steps"]
    assert (step["loop"], step["rate"], step["arrivals"]) == ("open", 150, "constant")
    assert step["offered_per_second"] == pytest.approx(150, rel=0.2)
    assert step["errors"] == {}
    assert step["server"] is not None


def test_each_test_gets_a_folder_of_its_own(target: str, tmp_path: Path) -> None:
    arguments = ("--target", target, "--rate", "50", "--windows", "1")
    for _ in range(2):
        assert loadtest(*arguments, folder=tmp_path).returncode == 0
    names = ["loadtest-small-v1-unary-rate", "loadtest-small-v1-unary-rate-2"]
    assert sorted(folder.name for folder in (tmp_path / "results").iterdir()) == names
    first, second = (result_of(tmp_path / "results" / name) for name in names)
    assert first["steps"] != second["steps"]


def test_the_folder_of_an_evaluation_gets_no_load_test(target: str, games: Path, tmp_path: Path) -> None:
    before = sorted(games.iterdir())
    message = failure("--target", target, "--out", str(games), folder=tmp_path)
    assert message == f"{games} contains an evaluation; choose another folder with --out"
    assert sorted(games.iterdir()) == before


def test_a_target_that_is_no_octofold_server_is_named(tmp_path: Path) -> None:
    other = grpc.server(futures.ThreadPoolExecutor(1))
    target = f"127.0.0.1:{other.add_insecure_port('127.0.0.1:0')}"
    other.start()
    message = failure("--target", target, folder=tmp_path)
    other.stop(None).wait()
    assert message == f"{target}: this gRPC server is not an Octofold server"
    assert not list(tmp_path.iterdir())


def test_a_file_of_boards_that_is_none_is_named_before_anything_is_measured(
    target: str, tmp_path: Path
) -> None:
    (tmp_path / "boards").write_text("no replay")
    assert failure("--target", target, "--boards", "boards", folder=tmp_path) == "boards: not a replay file"
    assert not (tmp_path / "results").exists()


def test_a_rate_of_zero_is_a_wrong_command_line(tmp_path: Path) -> None:
    done = loadtest("--rate", "0", folder=tmp_path)
    assert done.returncode == 2
    assert "--rate: 0: 0 is not above 0 and at most 1,000,000" in done.stderr

"""The command `octofold loadtest`: its output, files, processes and failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from octofold_client.cli.loadtest import levels, limit
from octofold_client.loadtest.forms import Form
from octofold_game.commands.options import WrongValue
from support.commands import Command, octofold
from support.json_files import read_json
from support.servers import served
from support.waiting import wait_for

OCTOFOLD = Path(sys.executable).with_name("octofold")
SECONDS = 60
QUICK = ("--ramp", "50ms", "--window", "100ms", "--windows", "3")
SWEEP = ("--concurrency", "1:99:1", "--ramp", "1ms", "--window", "100ms", "--windows", "3", "--out", "out")
"""Flags of a load test with more steps than any test waits for."""


def loadtest(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return octofold("loadtest", *QUICK, *arguments, folder=folder)


def is_gone(group: int) -> bool:
    """Return whether all processes of this group have ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def described_fields() -> set[str]:
    """Return the fields of `loadtest.json` that the tables of docs/loadtest.md list."""
    text = (Path(__file__).parents[3] / "docs" / "loadtest.md").read_text()
    return {
        name.strip("` ")
        for line in text.partition("### `loadtest.json`")[2].splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].split(",")
    }


def test_a_closed_loop_prints_a_line_per_step_and_writes_the_result(target: str, tmp_path: Path) -> None:
    arguments = ("--concurrency", "1:2:2x", "--form", "packed:4", "--plots")
    done = loadtest("--target", target, *arguments, folder=tmp_path)
    assert done.returncode == 0, done
    # Progress lines may come in between if a step takes long.
    steps = [line for line in done.stderr.splitlines() if not line.startswith("small version 1, ")]
    assert [line.partition(":")[0] for line in steps] == ["1 caller", "2 callers"]
    assert done.stdout.startswith(
        "**small version 1, packed:4: calls, boards, and latencies in milliseconds**\n"
    )
    assert "| 2 callers |" in done.stdout
    folder = tmp_path / "results" / "loadtest-small-v1-packed4-concurrency"
    assert (folder / "latency-against-load.png").read_bytes().startswith(b"\x89PNG")
    result = read_json(folder / "loadtest.json")
    assert (result["schema"], result["model"], result["precision"]) == (2, "small", "fp32")
    assert (result["finished"], result["limit"]) == (True, None)
    assert [step["concurrency"] for step in result["steps"]] == [1, 2]
    for step in result["steps"]:
        assert step["boards_per_second"] == pytest.approx(4 * step["calls_per_second"])
        latency = step["latency_ms"]
        order = [latency[name] for name in ("p50", "p90", "p95", "p99", "p99.9", "max")]
        assert order == sorted(order)
        assert order[0] > 0
        assert sum(count for _, count in step["histogram_us"]) == step["calls"]
        server = step["server"]
        assert min(server["queue_ms"], server["inference_ms"]) > 0
        assert step["client_cpu_cores"] > 0
        assert step["errors"] == {}
    assert described_fields() == {*result, *result["steps"][0]} - {"concurrency"}


def test_the_output_and_the_file_say_that_no_rate_meets_the_limit(target: str, tmp_path: Path) -> None:
    arguments = ("--slo", "p50=1us", "--window", "50ms", "--windows", "1", "--out", "out")
    done = loadtest("--target", target, *arguments, folder=tmp_path)
    assert done.returncode == 0, done
    result = read_json(tmp_path / "out" / "loadtest.json")
    assert result["limit"] == {"percentile": 50, "milliseconds": 0.001, "highest_rate": None}
    first, *tried = result["steps"]
    assert (first["concurrency"], first["holds"]) == (1, False)
    assert [step["rate"] for step in tried] == [tried[0]["rate"] / 2**halved for halved in range(11)]
    assert not any(step["holds"] for step in tried)
    assert "no tested rate meets the limit p50 of 0.001 ms" in done.stdout


def test_ctrl_c_keeps_finished_steps_and_leaves_no_process(target: str, tmp_path: Path) -> None:
    flags = ("--form", "packed:8", "--processes", "2")
    process = subprocess.Popen(
        [OCTOFOLD, "loadtest", *SWEEP, "--target", target, *flags],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for((tmp_path / "out" / "loadtest.json").exists, process=process)
        # A terminal sends Ctrl-C to every process of the group.
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "octofold: interrupted"
    assert "Traceback" not in errors
    assert "| 1 caller " in output
    assert "the test did not finish" in output
    result = read_json(tmp_path / "out" / "loadtest.json")
    assert result["finished"] is False
    first = result["steps"][0]
    assert first["errors"] == {}
    assert first["calls"]
    wait_for(lambda: is_gone(process.pid))


def test_the_death_of_the_server_ends_the_test_with_the_last_error_and_keeps_finished_steps(
    repository: Path, tmp_path: Path
) -> None:
    with served(repository) as server:
        process = Command("loadtest", *SWEEP, "--target", server.target, folder=tmp_path)
        try:
            wait_for((tmp_path / "out" / "loadtest.json").exists, process=process)
            server.process.kill()
            code = process.wait(SECONDS)
            output, errors = process.communicate()
        finally:
            process.close()
    assert code == 1, errors
    assert "callers: no call was answered in the last 3 windows; last error: UNAVAILABLE: " in errors
    assert "Traceback" not in errors
    assert "| 1 caller " in output


def test_several_processes_send_the_rate_to_a_server_that_requires_a_token(
    repository: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("sesame\n")
    arguments = ("--rate", "150", "--processes", "2", "--out", "out")
    with served(repository, "--tokens", str(token)) as server:
        done = loadtest("--target", server.target, "--token-file", str(token), *arguments, folder=tmp_path)
    assert done.returncode == 0, done
    (step,) = read_json(tmp_path / "out" / "loadtest.json")["steps"]
    assert (step["loop"], step["rate"]) == ("open", 150)
    assert step["errors"] == {}
    assert step["server"] is not None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,4,16", [1, 4, 16]),
        ("1:128:2x", [1, 2, 4, 8, 16, 32, 64, 128]),
        ("4:17:4", [4, 8, 12, 16]),
        ("0.1:0.3:0.1,5", [0.1, 0.2, 0.3, 5]),
    ],
)
def test_levels_are_a_number_a_list_or_a_range(text: str, values: list[float]) -> None:
    assert levels(text) == pytest.approx(values)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (levels, "-5", "a level must be a number, or a range such as 4:16:4 or 1:128:2x, got -5"),
        (levels, "10:1:2x", "a range must not end below its start, got 10:1:2x"),
        (levels, "1:9:1x", "the step of a range must be above 1, got 1:9:1x"),
        (levels, "1:1000000:1", "there must be at most 1,000 levels, got 1:1000000:1"),
        (limit, "p0=1s", "a limit must be a percentile and a time, such as p99=20ms, got p0=1s"),
        (limit, "p99=0ms", "a time must be above 0 and have a unit, such as 20ms or 1.5s, got '0ms'"),
        (
            Form.parse,
            "oip",
            "there is no form oip: for the Open Inference Protocol, use Triton's perf_analyzer",
        ),
        (
            Form.parse,
            "soap",
            "the form must be unary, packed:N or stream:N, got soap",
        ),
        (
            Form.parse,
            "packed:65537",
            "the number of boards must be from 1 to 65,536, got '65537' in packed:65537",
        ),
    ],
)
def test_the_error_for_an_invalid_flag_names_the_value_and_the_flag(
    parse: Callable[[str], object], text: str, message: str
) -> None:
    with pytest.raises(WrongValue) as failed:
        parse(text)
    assert str(failed.value) == message

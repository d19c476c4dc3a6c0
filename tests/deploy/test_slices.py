"""The commands of deploy/slices play every game once and merge the slices."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from octofold_game.replays import read_replays
from support.commands import octofold

EXAMPLES = Path(__file__).parents[2] / "deploy" / "slices"
GAMES = 5
RECORDER = """#!/usr/bin/env python3
import json, sys
with open("commands.jsonl", "a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
"""


def test_the_jobs_meet_the_restricted_standard_and_may_call_the_servers() -> None:
    for name in ("job.yaml", "merge.yaml"):
        *_, job = yaml.safe_load_all((EXAMPLES / name).read_text())
        spec = job["spec"]["template"]["spec"]
        assert job["metadata"]["namespace"] == "octofold"
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        refused = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert spec["containers"][0]["securityContext"] == refused
        if name == "job.yaml":
            assert job["spec"]["template"]["metadata"]["labels"]["octofold-client"] == "true"


@pytest.fixture(autouse=True)
def recorder(tmp_path: Path) -> None:
    """Write a command `octofold` at the container's path that records its arguments."""
    program = tmp_path / ".venv" / "bin" / "octofold"
    program.parent.mkdir(parents=True)
    program.write_text(RECORDER)
    program.chmod(0o755)


def run(command: list[str], folder: Path, **variables: str) -> None:
    """Run a script as its scheduler would, then the recorded command with the real octofold."""
    path = f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}"
    subprocess.run(command, cwd=folder, env={**os.environ, **variables, "PATH": path}, check=True, timeout=30)
    words = json.loads((folder / "commands.jsonl").read_text().splitlines()[-1])
    done = octofold(*words, folder=folder)
    assert done.returncode == 0, done


def is_whole(folder: Path) -> None:
    assert [episode.game for episode in read_replays(folder / "games.replay")] == list(range(GAMES))


def test_the_tasks_of_slurm_play_every_game_even_if_some_restart(repository: Path, tmp_path: Path) -> None:
    settings = {"MODELS": str(repository), "MODEL": "small", "GAMES": str(GAMES), "SLICES": "2"}
    for task in ("2", "1"):
        # as in an array of one task that starts again
        array = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": "1", "OUT": "shared"}
        run(["bash", str(EXAMPLES / "evaluate.slurm")], tmp_path, **settings, **array)
    run(["bash", str(EXAMPLES / "merge.slurm")], tmp_path, OUT="shared")
    is_whole(tmp_path / "shared" / "merged")
    script = (EXAMPLES / "evaluate.slurm").read_text()
    (tasks,), (slices,) = re.findall(r"--array=1-(\d+)\n", script), re.findall(r"SLICES:-(\d+)}", script)
    assert tasks == slices


def job_of(name: str) -> tuple[dict[str, Any], list[str], dict[str, str]]:
    """Return the specification of a job, the command of its container, and its variables."""
    (job,) = (each for each in yaml.safe_load_all((EXAMPLES / name).read_text()) if each["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    return job["spec"], [*container["command"], *container["args"]], variables


def test_the_tasks_of_kubernetes_play_every_game(target: str, tmp_path: Path) -> None:
    spec, command, variables = job_of("job.yaml")
    assert spec["completionMode"] == "Indexed"
    assert str(spec["completions"]) == variables["SLICES"]
    out = str(tmp_path / "results")
    variables |= {"TARGET": target, "MODEL": "small", "GAMES": str(GAMES), "SLICES": "2", "OUT": out}
    for index in ("0", "1"):
        run(command, tmp_path, **variables, JOB_COMPLETION_INDEX=index)
    _, command, variables = job_of("merge.yaml")
    run(command, tmp_path, **{**variables, "OUT": out})
    is_whole(tmp_path / "results" / "merged")

"""What is installed where: pins that fit each other, and what the targets of the Makefile would run."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


def planned(*arguments: str) -> str:
    """What make would run in a clone that has no environment yet."""
    command = ["make", "--dry-run", "--always-make", "VENV=absent", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_knows_what_to_run(target: str) -> None:
    assert planned(target)


def test_cpu_and_gpu_have_environments_of_their_own() -> None:
    command = ["make", "--dry-run", "--always-make", "serve"]
    cpu, gpu = (
        subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True).stdout
        for more in ([], ["SERVER=server-gpu"])
    )
    assert "--editable '.[server]'" in cpu
    assert ".venv/bin/octofold-serve" in cpu
    assert "--editable '.[server-gpu]'" in gpu
    assert ".venv-gpu/bin/octofold-serve" in gpu
    assert "onnxruntime-gpu" not in names(EXTRAS["server"])
    assert "onnxruntime" not in names(EXTRAS["server-gpu"])


def names(requirements: list[str]) -> set[str]:
    return {Requirement(line).name for line in requirements}


def test_both_builds_of_onnxruntime_are_of_one_release() -> None:
    assert PINS["onnxruntime-gpu"] == PINS["onnxruntime"]
    (gpu,) = (Requirement(line) for line in EXTRAS["server-gpu"] if line.startswith("onnxruntime-gpu"))
    assert gpu.extras == {"cuda", "cudnn"}  # so the base image needs no CUDA
    assert PINS["onnxruntime-gpu"] in gpu.specifier
    assert "cuda" not in (ROOT / "Dockerfile").read_text().split("FROM")[0].partition("ARG BASE=")[2]


@pytest.mark.long  # the package index may take as long as it likes
def test_the_pinned_cuda_is_what_the_pinned_onnxruntime_needs(tmp_path: Path) -> None:
    """Asks the package index for the wheel's metadata; skipped where there is none."""
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps"]
    wheel = f"onnxruntime-gpu=={PINS['onnxruntime-gpu']}"
    try:
        done = subprocess.run([*command, "--report", str(report), wheel], capture_output=True, timeout=90)
    except subprocess.TimeoutExpired:
        pytest.skip("the package index is too slow")
    if done.returncode:
        pytest.skip("no package index")
    metadata = json.loads(report.read_text())["install"][0]["metadata"]
    needed = [Requirement(line) for line in metadata["requires_dist"]]
    needed = [requirement for requirement in needed if requirement.name.startswith("nvidia-")]
    assert needed
    for requirement in needed:
        assert PINS[requirement.name] in requirement.specifier, str(requirement)

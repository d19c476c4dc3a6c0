"""Whether CUDA can be used, and the one line that says what is missing if it cannot."""

from __future__ import annotations

import ctypes
import logging
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnxruntime
import pytest
from octofold_proto.errors import ModelError
from octofold_server.backends.cuda import ThisMachine, missing_library, needed_libraries, why_no_cuda
from octofold_server.models.layouts import choose_device

CPU_BUILD = ("CPUExecutionProvider",)
GPU_BUILD = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")
SHARED = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_shared.so"


@dataclass
class FakeMachine:
    """A machine with a GPU and all that it needs, unless told otherwise."""

    build: Sequence[str] = GPU_BUILD
    found: int | None = 1
    versions: tuple[str, str] = ("13.1", "13.0")
    missing: str | None = None
    failed: str | None = None

    def providers(self) -> Sequence[str]:
        return self.build

    def gpus(self) -> int:
        if self.found is None:
            raise OSError("libcuda.so.1: cannot open shared object file: No such file or directory")
        return self.found

    def cuda_versions(self) -> tuple[str, str]:
        return self.versions

    def missing_library(self, _provider: str) -> str | None:
        return self.missing

    def failure(self, _provider: str) -> str | None:
        return self.failed


BROKEN = [
    (FakeMachine(CPU_BUILD), "this onnxruntime is built for CPUs; install the other with: "),
    (FakeMachine(found=None), "the library libcuda.so.1 is missing, which comes with NVIDIA's driver"),
    (FakeMachine(found=0), "the driver finds no GPU"),
    (FakeMachine(missing="the library libcublas.so.13 is missing"), "the library libcublas.so.13 is missing"),
    (
        FakeMachine(versions=("12.8", "13.0")),
        "NVIDIA's driver is for CUDA 12.8, and this onnxruntime needs one for CUDA 13.0",
    ),
    (FakeMachine(failed="the driver is too old"), "the driver is too old"),
]


def test_a_machine_with_all_that_cuda_needs_runs_models_on_its_gpu() -> None:
    assert why_no_cuda(FakeMachine()) is None
    assert [choose_device(wanted, FakeMachine()) for wanted in ("auto", "cuda", "cpu")] == [
        "cuda",
        "cuda",
        "cpu",
    ]


@pytest.mark.parametrize("versions", [("13.0", "13.1"), ("14.0", "13.0"), ("", "13.0"), ("12.8", "")])
def test_a_driver_of_the_same_or_a_later_generation_will_do(versions: tuple[str, str]) -> None:
    assert why_no_cuda(FakeMachine(versions=versions)) is None


@pytest.mark.parametrize(("machine", "why"), BROKEN)
def test_what_cuda_lacks_is_said_in_one_line_and_only_cuda_refuses(
    machine: FakeMachine, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ModelError, match=f"no CUDA: {why}") as refused:
        choose_device("cuda", machine)
    assert "\n" not in str(refused.value)
    with caplog.at_level(logging.WARNING):
        assert choose_device("auto", machine) == "cpu"
    if machine.build == CPU_BUILD:  # nobody expects a GPU of it
        assert caplog.messages == []
    else:
        (told,) = caplog.messages
        assert told.startswith(f"models run on the CPU, no CUDA: {why}")


def test_a_provider_without_a_file_is_missing_itself() -> None:
    assert "libonnxruntime_providers_nosuch.so is missing" in str(
        ThisMachine().missing_library("NosuchExecutionProvider")
    )


def test_a_provider_is_tried_before_it_is_believed() -> None:
    assert ThisMachine().failure("CPUExecutionProvider") is None
    assert "cannot start it" in str(ThisMachine().failure("NosuchExecutionProvider"))


def test_the_needs_of_a_library_are_those_that_binutils_lists() -> None:
    if not SHARED.exists() or shutil.which("readelf") is None:
        pytest.skip("needs binutils, and onnxruntime for Linux")
    listed = subprocess.run(["readelf", "-d", SHARED], capture_output=True, text=True, check=True).stdout
    wanted = [line.partition("[")[2].rstrip("]") for line in listed.splitlines() if "(NEEDED)" in line]
    assert needed_libraries(SHARED) == wanted != []
    assert missing_library(SHARED) is None


def test_the_dynamic_loader_itself_says_which_library_is_missing(tmp_path: Path) -> None:
    if not SHARED.exists():
        pytest.skip("needs onnxruntime for Linux")
    broken = tmp_path / "broken.so"
    broken.write_bytes(SHARED.read_bytes().replace(b"libc.so.6", b"libx.so.6"))
    assert missing_library(broken) == "the library libx.so.6 is missing"


@pytest.mark.parametrize("size", [0, 10, 64, 200])
def test_a_file_that_is_cut_off_or_is_no_library_needs_nothing(tmp_path: Path, size: int) -> None:
    (tmp_path / "cut.so").write_bytes(SHARED.read_bytes()[:size] if SHARED.exists() else b"\x7fELF")
    (tmp_path / "text.so").write_text("no library")
    assert needed_libraries(tmp_path / "cut.so") == needed_libraries(tmp_path / "text.so") == []


def test_a_library_that_is_there_and_damaged_is_named_with_its_fault(tmp_path: Path) -> None:
    if not SHARED.exists():
        pytest.skip("needs onnxruntime for Linux")
    (tmp_path / "bad.so").write_bytes(b"no library")
    assert "bad.so" in str(missing_library(SHARED, lambda _: ctypes.CDLL(str(tmp_path / "bad.so"))))

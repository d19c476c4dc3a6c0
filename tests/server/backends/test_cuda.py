"""Whether CUDA can be used, and the one line that says what is missing if it cannot."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from octofold_proto.errors import ModelError
from octofold_server.backends.cuda import ThisMachine, reason_in, why_no_cuda
from octofold_server.models.layouts import choose_device

CPU_BUILD = ("CPUExecutionProvider",)
GPU_BUILD = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")


@dataclass
class FakeMachine:
    """A machine with a GPU and all that it needs, unless told otherwise."""

    build: Sequence[str] = GPU_BUILD
    found: int | None = 1
    failed: str | None = None

    def providers(self) -> Sequence[str]:
        return self.build

    def gpus(self) -> int:
        if self.found is None:
            raise OSError("libcuda.so.1: cannot open shared object file: No such file or directory")
        return self.found

    def failure(self, _provider: str) -> str | None:
        return self.failed


BROKEN = [
    (FakeMachine(CPU_BUILD), "this onnxruntime is built for CPUs; make serve SERVER=server-gpu"),
    (FakeMachine(found=None), "the library libcuda.so.1 is missing, which comes with NVIDIA's driver"),
    (FakeMachine(found=0), "the driver finds no GPU"),
    (FakeMachine(failed="the driver is too old"), "the driver is too old"),
]


def test_a_machine_with_all_that_cuda_needs_runs_models_on_its_gpu() -> None:
    assert why_no_cuda(FakeMachine()) is None
    assert [choose_device(wanted, FakeMachine()) for wanted in ("auto", "cuda", "cpu")] == [
        "cuda",
        "cuda",
        "cpu",
    ]


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


def test_a_provider_is_tried_before_it_is_believed() -> None:
    assert ThisMachine().failure("CPUExecutionProvider") is None
    assert "cannot start NosuchExecutionProvider" in str(ThisMachine().failure("NosuchExecutionProvider"))


def test_the_words_of_onnxruntime_give_the_reason() -> None:
    said = (
        "2026-11-28 17:05:45 [E:onnxruntime:Default, provider_bridge_ort.cc:2458] 1 : FAIL : Failed "
        "to load library /lib/libonnxruntime_providers_cuda.so with error: libcublasLt.so.13: cannot open "
        "shared object file: No such file or directory\n[W:onnxruntime:Default] Failed to create it.\n"
    )
    missing = "libcublasLt.so.13: cannot open shared object file: No such file or directory"
    assert reason_in(said) == missing
    assert reason_in("") == "it gives no reason"

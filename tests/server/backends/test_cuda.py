"""Detection of CUDA, and the line that names what is missing."""

from __future__ import annotations

import pytest
from octofold_proto.errors import ModelError
from octofold_server.backends.cuda import has_gpu_build, reason_in, why_unusable
from octofold_server.models.layouts import choose_device


@pytest.mark.skipif(has_gpu_build(), reason="this onnxruntime may use a GPU")
def test_without_cuda_auto_chooses_the_cpu_and_cuda_is_refused_in_one_line() -> None:
    assert choose_device("auto") == "cpu"
    with pytest.raises(ModelError, match="CUDA cannot be used: this onnxruntime is built for CPUs"):
        choose_device("cuda")


def test_an_execution_provider_is_tested_before_it_is_used() -> None:
    assert why_unusable("CPUExecutionProvider") is None
    assert "cannot start NosuchExecutionProvider" in str(why_unusable("NosuchExecutionProvider"))


def test_the_error_contains_the_message_of_onnxruntime() -> None:
    said = (
        "2026-11-28 17:05:45 [E:onnxruntime:Default, provider_bridge_ort.cc:2458] 1 : FAIL : Failed "
        "to load library /lib/libonnxruntime_providers_cuda.so with error: libcublasLt.so.13: cannot open "
        "shared object file: No such file or directory\n[W:onnxruntime:Default] Failed to create it.\n"
    )
    missing = "libcublasLt.so.13: cannot open shared object file: No such file or directory"
    assert reason_in(said) == missing
    assert reason_in("") == "onnxruntime gives no reason"

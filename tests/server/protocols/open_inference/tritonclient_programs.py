"""Programs that use Triton's own client. They run in a process of their own: the client's
generated classes and ours register the same names.

    python tritonclient_programs.py GRPC_TARGET REST_TARGET
"""

from __future__ import annotations

import asyncio
import queue
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException

BOARDS = np.random.default_rng(5).integers(1, 12, (50, 16), dtype=np.uint8)
MOVES = (BOARDS.sum(axis=1, dtype=np.int64) % 4).astype(np.int8)
"""The moves of the server's graph."""

OUTPUTS = {
    "move": ("INT8", (50,)),
    "probabilities": ("FP32", (50, 4)),
    "votes": ("UINT8", (50, 4)),
    "legal": ("BOOL", (50, 4)),
}


def grpc_input(boards: np.ndarray) -> Any:
    tensor = tritonclient.grpc.InferInput("boards", list(boards.shape), "UINT8")
    return tensor.set_data_from_numpy(boards)


def http_input(boards: np.ndarray, *, binary: bool) -> Any:
    tensor = tritonclient.http.InferInput("boards", list(boards.shape), "UINT8")
    return tensor.set_data_from_numpy(boards, binary_data=binary)


def check(result: Any) -> None:
    np.testing.assert_array_equal(result.as_numpy("move"), MOVES)
    for name, (_, shape) in OUTPUTS.items():
        assert result.as_numpy(name).shape == shape
    assert result.as_numpy("legal").dtype == np.bool_


def grpc_sync(target: str, _: str) -> None:
    with tritonclient.grpc.InferenceServerClient(target) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("tiny")
        assert client.is_model_ready("tiny", "1")
        assert not client.is_model_ready("nobody")
        assert client.get_server_metadata().name == "octofold"
        metadata = client.get_model_metadata("tiny")
        assert [(t.name, t.datatype) for t in metadata.outputs] == [(n, d) for n, (d, _) in OUTPUTS.items()]
        assert client.get_model_config("tiny").config.max_batch_size == 65_536
        result = client.infer("tiny", [grpc_input(BOARDS)], request_id="1", priority=2, timeout=60_000_000)
        check(result)
        assert result.get_response().id == "1"
        one = [tritonclient.grpc.InferRequestedOutput("move")]
        result = client.infer("tiny", [grpc_input(BOARDS)], outputs=one, model_version="1")
        assert result.as_numpy("votes") is None
        with pytest.raises(InferenceServerException, match=r"must have shape \[N, 16\]") as failure:
            client.infer("tiny", [grpc_input(BOARDS[:, :15])])
        assert failure.value.status() == "StatusCode.INVALID_ARGUMENT"
        answers: queue.Queue[Any] = queue.Queue()
        client.async_infer("tiny", [grpc_input(BOARDS)], lambda result, error: answers.put((result, error)))
        result, error = answers.get(timeout=30)
        assert error is None
        check(result)
        statistics = client.get_inference_statistics("tiny").model_stats[0]
        assert statistics.inference_stats.success.count == statistics.inference_stats.queue.count == 3
        assert statistics.inference_count == 150
        client.unload_model("tiny")
        while client.get_model_repository_index().models[0].state != "UNAVAILABLE":
            time.sleep(0.01)  # the server still ends the model's lanes
        client.load_model("tiny")
        assert client.get_model_repository_index(as_json=True)["models"][0]["state"] == "READY"


def grpc_stream(target: str, _: str) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    with tritonclient.grpc.InferenceServerClient(target) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number in range(50):
            board = BOARDS[number : number + 1] if number != 20 else np.full((1, 16), 99, np.uint8)
            client.async_stream_infer("tiny", [grpc_input(board)], request_id=str(number))
        found, errors = {}, []
        for result, error in (answers.get(timeout=30) for _ in range(50)):
            if error is None:
                found[int(result.get_response().id)] = result.as_numpy("move")[0]
            else:
                errors.append(error.message())
        client.stop_stream()
    assert errors == ["board 0, cell 0: exponent 99 is outside 0 to 17"]
    assert found == {number: MOVES[number] for number in range(50) if number != 20}


def grpc_asyncio(target: str, _: str) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for number in range(10):
            yield {"model_name": "tiny", "inputs": [grpc_input(BOARDS)], "request_id": str(number)}

    async def run() -> None:
        async with tritonclient.grpc.aio.InferenceServerClient(target) as client:
            assert await client.is_server_ready()
            calls = [client.infer("tiny", [grpc_input(BOARDS)]) for _ in range(8)]
            for result in await asyncio.gather(*calls):
                check(result)
            ids = set()
            async for result, error in client.stream_infer(requests()):
                assert error is None
                check(result)
                ids.add(result.get_response().id)
            assert ids == {str(number) for number in range(10)}

    asyncio.run(run())


def http_sync(_: str, target: str) -> None:
    with tritonclient.http.InferenceServerClient(target, concurrency=4) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("tiny", "1")
        assert not client.is_model_ready("nobody")
        assert client.get_server_metadata()["name"] == "octofold"
        assert client.get_model_metadata("tiny")["inputs"][0]["shape"] == [-1, 16]
        assert client.get_model_config("tiny")["max_batch_size"] == 65_536
        counted_before = client.get_inference_statistics("tiny")["model_stats"][0]["inference_count"]
        for binary in (True, False):
            result = client.infer("tiny", [http_input(BOARDS, binary=binary)], request_id="1", priority=1)
            check(result)
            assert result.get_response()["id"] == "1"
            outputs = [tritonclient.http.InferRequestedOutput(name, binary_data=binary) for name in OUTPUTS]
            check(client.infer("tiny", [http_input(BOARDS, binary=binary)], outputs=outputs))
        pending = [client.async_infer("tiny", [http_input(BOARDS, binary=True)]) for _ in range(4)]
        for call in pending:
            check(call.get_result())
        with pytest.raises(InferenceServerException, match="tiny supports tiles up to 32768") as failure:
            client.infer("tiny", [http_input(np.full((1, 16), 16, np.uint8), binary=True)])
        assert failure.value.status() == "400"
        counted = client.get_inference_statistics("tiny")["model_stats"][0]["inference_count"]
        assert counted - counted_before == 400
        client.unload_model("tiny")
        while client.get_model_repository_index()[0]["state"] != "UNAVAILABLE":
            time.sleep(0.01)
        client.load_model("tiny")
        assert client.is_model_ready("tiny")


def http_asyncio(_: str, target: str) -> None:
    async def run() -> None:
        async with tritonclient.http.aio.InferenceServerClient(target) as client:
            calls = [client.infer("tiny", [http_input(BOARDS, binary=n % 2 == 0)]) for n in range(8)]
            for result in await asyncio.gather(*calls):
                check(result)

    asyncio.run(run())


if __name__ == "__main__":
    for program in (grpc_sync, grpc_stream, grpc_asyncio, http_sync, http_asyncio):
        program(*sys.argv[1:])

"""Clients that are killed in the middle of everything."""

from __future__ import annotations

from pathlib import Path

from support.servers import forked_server
from support.waiting import wait_for

CLIENTS = 4

CLIENT = """
import asyncio, sys
import grpc
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

async def main():
    async with grpc.aio.insecure_channel(sys.argv[1]) as channel:
        stub = OctofoldServiceStub(channel)
        request = pb.NextMovesRequest(boards=bytes([1] * 16 * 300), with_probabilities=True)
        answered = asyncio.Event()

        async def call():
            while True:
                try:
                    await stub.NextMoves(request)
                    answered.set()
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                        raise
                    await asyncio.sleep(0.01)  # the calls of those who were killed before have not ended yet

        async def stream():
            stream = stub.StreamNextMoves()
            for number in range(4):
                await stream.write(pb.StreamNextMovesRequest(id=number, request=request))
            await asyncio.Event().wait()  # never reads what it has asked for

        work = [asyncio.ensure_future(call()) for _ in range(4)]
        work += [asyncio.ensure_future(stream()) for _ in range(4)]
        await answered.wait()
        print("busy", file=sys.stderr)
        await asyncio.gather(*work)

asyncio.run(main())
"""


def storm(target: str, folder: Path) -> None:
    """Clients that call, stream and do not read, all killed once each of them has had an answer."""
    program, log_file = folder / "client.py", folder / "client.log"
    program.write_text(CLIENT)
    with log_file.open("wb") as log:
        clients = [forked_server([target], log, str(program)) for _ in range(CLIENTS)]
    wait_for(lambda: log_file.read_text().count("busy") == CLIENTS)
    for client in clients:
        client.kill()
    for client in clients:
        client.wait()

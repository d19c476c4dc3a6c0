"""Generates the stubs of every .proto file in this package: `python -m octofold_proto.generate`.

A test checks that the committed stubs are current. Stubs work with the protobuf runtime of the
compiler's major version and of the next one. The compiler is pinned to protobuf 6, so the stubs work with 6
and 7.
"""

from __future__ import annotations

import tempfile
from importlib import resources
from pathlib import Path

from google.rpc import status_pb2

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent
"""Folder from which protoc derives the import paths of .proto files."""
STUB_ENDINGS = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
_DEFAULT = "from google.protobuf import descriptor_pool as _descriptor_pool"
_OWN = "from octofold_proto.inference import POOL as _POOL"
"""Import statement that puts the stubs of `inference` into a descriptor pool of their own."""


def generate(target: Path) -> list[Path]:
    """Generate the stubs of all .proto files of this package in the folder `target`, with its subfolders.

    Returns:
        The paths of the stubs, relative to `target`.

    Raises:
        SystemExit: the compiler is missing, or it failed and printed the reason.
    """
    try:
        from grpc_tools import protoc  # type: ignore[import-untyped]
    except ImportError:
        raise SystemExit("grpcio-tools is not installed: run `pip install --group dev`") from None

    google_rpc_protos = Path(status_pb2.__file__).parents[2]
    protobuf_protos = Path(str(resources.files("grpc_tools"))) / "_proto"
    sources = sorted(PACKAGE.rglob("*.proto"))
    arguments = [
        "protoc",
        f"--proto_path={ROOT}",
        f"--proto_path={google_rpc_protos}",
        f"--proto_path={protobuf_protos}",
        f"--python_out={target}",
        f"--pyi_out={target}",
        f"--grpc_python_out={target}",
        *(str(source) for source in sources),
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed; its messages are above")
    for stub in (target / PACKAGE.name / "inference").glob("*_pb2.py"):
        text = stub.read_text().replace(_DEFAULT, _OWN)
        stub.write_text(text.replace("_descriptor_pool.Default()", "_POOL"))
    for stub in target.rglob("*_pb2_grpc.py"):
        if "\nclass " not in stub.read_text():  # the file has no service
            stub.unlink()
    return sorted(path.relative_to(target) for ending in STUB_ENDINGS for path in target.rglob(f"*{ending}"))


def stale_stubs() -> list[Path]:
    """Return the stubs that `generate` would change, add or remove, as paths relative to the proto folder."""
    with tempfile.TemporaryDirectory() as folder:
        fresh_root = Path(folder)
        fresh = {path: (fresh_root / path).read_bytes() for path in generate(fresh_root)}
    committed = {
        path.relative_to(ROOT): path.read_bytes()
        for ending in STUB_ENDINGS
        for path in PACKAGE.rglob(f"*{ending}")
    }
    return sorted(path for path in fresh.keys() | committed.keys() if fresh.get(path) != committed.get(path))


if __name__ == "__main__":
    for path in generate(ROOT):
        print(path)

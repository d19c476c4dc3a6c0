"""The committed stubs are current, and every supported protobuf runtime loads them."""

from __future__ import annotations

import re
from pathlib import Path

import octofold_proto
from octofold_proto.generate import stale_stubs

PACKAGE = Path(octofold_proto.__file__).parent


def test_regenerating_changes_nothing() -> None:
    assert stale_stubs() == []


def test_stubs_are_made_for_protobuf_6_so_that_6_and_7_load_them() -> None:
    stubs = list(PACKAGE.rglob("*_pb2.py"))
    assert stubs
    for stub in stubs:
        version = re.search(r"Protobuf Python Version: (\d+)\.(\d+)", stub.read_text(encoding="utf-8"))
        assert version is not None
        assert version.groups() == ("6", "31"), "the base install allows protobuf 6.31"

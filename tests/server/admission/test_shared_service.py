"""Several processes as one service: their shared page of metrics."""

from __future__ import annotations

from pathlib import Path

from octofold_server.admission.shared_service import SharedService
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.system.siblings import Place
from support.processes import metric
from support.servers import Served


def test_the_page_says_not_ready_when_the_probe_does(server: Served, tmp_path: Path) -> None:
    shared = SharedService(Place(tmp_path, 0, 1), server.admission)
    operations = OpenInference(server.admission, shared)
    assert operations.ready
    assert metric(shared.metrics(), "octofold_ready") == 1
    server.admission.is_alive = lambda: False  # as when gRPC is stuck
    assert not operations.ready
    assert metric(shared.metrics(), "octofold_ready") == 0

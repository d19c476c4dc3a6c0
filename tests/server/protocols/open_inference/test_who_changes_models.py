"""A load or unload by request leaves a line in the log that says who asked."""

from __future__ import annotations

import logging

import pytest
from octofold_proto.inference import grpc_service_pb2 as oip
from support.servers import Ask, Served


def fields_of(log: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    changes = [record for record in log.records if record.getMessage() == "an admin call took effect"]
    return [vars(record)["fields"] for record in changes]


def test_an_unload_over_grpc_leaves_a_line_that_says_who_asked(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    request = oip.RepositoryModelUnloadRequest(model_name="fake")
    server.infer_stub().RepositoryModelUnload(request, metadata=(("x-request-id", "mine"),), timeout=30)
    (fields,) = fields_of(caplog)
    assert (fields["call"], fields["request_id"]) == ("RepositoryModelUnload", "mine")
    assert fields["client"].startswith("ipv4:127.0.0.1:")


def test_an_unload_over_rest_leaves_a_line_that_says_who_asked(
    ask: Ask, server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = "/v2/repository/models/fake/unload"
    assert ask(server, "POST", path, {}, X_Request_Id="mine").status == 200
    assert fields_of(caplog) == [{"call": f"POST {path}", "request_id": "mine", "client": "127.0.0.1"}]

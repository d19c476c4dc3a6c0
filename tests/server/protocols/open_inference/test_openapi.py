"""docs/openapi.yaml lists the routes of the server, and the server answers its requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from octofold_proto.messages import LONGEST_SEARCH_US
from octofold_server.http_transport.bodies import Bodies
from octofold_server.protocols.open_inference.tensors import OUTPUTS
from octofold_server.web.routes import PARAMETERS
from support.fakes import FakeBackend
from support.rest_requests import BOARDS, INFER, described
from support.servers import Ask, ServeAll, Served


@pytest.fixture(scope="module")
def document() -> Any:
    file = Path(__file__).parents[4] / "docs" / "openapi.yaml"
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def test_the_document_lists_exactly_the_routes(document: Any, serve_all: ServeAll) -> None:
    described = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method in item.keys() - {"parameters"}
    }
    with serve_all(FakeBackend()) as served:
        admission = served.admission
        bodies = Bodies(admission.budget, 1.0, admission.refusals)
        found = {(route.method, route.path) for route in served.parts.routes(bodies)}
    assert described == {(method, path) for method, path in found if not is_file(path)}


def is_file(path: str) -> bool:
    """Return whether a path is a file of the page or of results, which the document omits."""
    return path == "/" or "{name:" in path or "{result:" in path


def test_the_document_has_the_outputs_parameters_and_limits_of_the_server(document: Any) -> None:
    schemas = document["components"]["schemas"]
    output = schemas["inference"]["properties"]["outputs"]["items"]
    assert output["properties"]["name"]["enum"] == list(OUTPUTS)
    assert schemas["search_time_us"]["maximum"] == LONGEST_SEARCH_US
    names = [document["components"]["parameters"][part["$ref"].rpartition("/")[2]]["name"]
             for part in document["paths"]["/move"]["parameters"]]  # fmt: skip
    assert names == list(PARAMETERS)


@pytest.mark.parametrize(
    "request_body",
    [
        {"inputs": [described(data=BOARDS.tolist())]},
        {"parameters": {"priority": 2, "search_time_us": 5}, "inputs": [described(data=BOARDS.tolist())]},
        {"id": None, "parameters": None, "outputs": None, "inputs": [described(data=BOARDS.tolist())]},
    ],
)
def test_a_request_that_fits_the_document_is_answered(
    document: Any, ask: Ask, server: Served, request_body: Any
) -> None:
    schema = {**document["components"]["schemas"]["inference"], "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(request_body)
    assert ask(server, "POST", INFER, request_body).status == 200


def test_an_answer_has_the_described_form(document: Any, ask: Ask, server: Served) -> None:
    for method, path in (("get", "/v2/models/{model}/ready"), ("post", "/v2/repository/index")):
        name = document["paths"][path][method]["responses"]["200"]["$ref"].rpartition("/")[2]
        content = document["components"]["responses"][name].get("content")
        reply = ask(server, method.upper(), path.format(model="fake"))
        assert (reply.status, bool(reply.body)) == (200, bool(content))
        if content:
            jsonschema.validate(reply.json, content["application/json"]["schema"])

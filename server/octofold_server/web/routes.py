"""The routes of the page: its files, and requests that the Open Inference Protocol does not have.

The files are public and need no token, because a browser cannot send one when it opens an address. The other
requests need the same right as an inference.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version as installed_version
from typing import Any, Literal

import msgspec
import numpy as np
from aiohttp import web
from numpy.typing import NDArray
from octofold_game.contract.graph import TEMPERATURE, VALUE
from octofold_game.contract.model import Card, Precision, parse_card
from octofold_game.rules import MOVE_NAMES
from octofold_proto.errors import InvalidRequest, Unavailable
from octofold_proto.messages import CELLS

from octofold_server.admission.access import Right
from octofold_server.admission.admission import AcceptedCall, Admission, code_name
from octofold_server.admission.request import Request
from octofold_server.backends.backend import MOVE_ALONE
from octofold_server.config.options import Config
from octofold_server.http_transport.calls import Route, failure_of, submit
from octofold_server.models.version_index import VersionState
from octofold_server.system.quoting import quoted
from octofold_server.web.files import INDEX, SECURITY_HEADERS, PageFiles
from octofold_server.web.results import Results
from octofold_server.web.views import Views

PARAMETERS = ("board", "model", "version", "with_value")
"""The allowed parameters of a request about a board. `search_time_us` is not one of them: a page of another
site could start long searches by showing images with these addresses."""

UNCACHED = {**SECURITY_HEADERS, "Cache-Control": "no-store"}
"""The headers of replies that no cache may keep."""

NO_MOVE = "none"
"""The answer of `/move` to a board without a legal move."""

DIGITS = "0123456789abcdefgh"
"""The digits of the exponents 0 to 17: hexadecimal digits, and g and h for the tiles 65536 and 131072."""


def routes(config: Config, admission: Admission) -> list[Route]:
    """Return the routes of the page, or only `/move` if the page is disabled."""
    answers = _Answers(config, admission)
    page_routes = [Route("GET", "/move", answers.move)]
    if config.page:
        files = PageFiles()

        async def index(request: web.Request) -> web.Response:
            return files.reply(INDEX, request)

        async def file(request: web.Request) -> web.Response:
            return files.reply(request.match_info["name"], request)

        page_routes += [
            Route("GET", "/", index, Right.NOTHING),
            Route("GET", "/page/about", answers.about),
            Route("GET", "/page/views", answers.views),
            Route("GET", "/page/results", answers.results),
            Route("GET", "/page/results/{result:.+}/{file}", answers.result),
            Route("GET", "/page/{name:.+}", file, Right.NOTHING),
        ]
    return page_routes


class _Answers:
    def __init__(self, config: Config, admission: Admission) -> None:
        self._admission = admission
        self._views = Views(config.models)
        self._results = Results(config.results)
        # Only one thread may use `Views`, so these requests take at most one CPU core.
        self._views_thread = ThreadPoolExecutor(1, thread_name_prefix="views")
        self._results_thread = ThreadPoolExecutor(1, thread_name_prefix="results")

    async def about(self, _: web.Request) -> web.Response:
        if self._admission.refusal:  # an incomplete list would make the page drop models
            raise Unavailable(self._admission.refusal)
        models = self._admission.models
        newest = {served.name: served for served in models.served()}  # sorted, so the newest comes last
        descriptions = [
            _described(served.card, served.precision, is_default=newest.get(models.default) is served)
            for served in models.served()
        ]
        for status in [*models.waiting(), *models.loading()]:
            is_loading = status.state is VersionState.LOADING
            seconds = time.monotonic() - status.since if is_loading else None
            descriptions.append(_described(parse_card(status.card_text), "", loading_seconds=seconds))
        return _json({"version": installed_version("octofold"), "models": descriptions})

    async def move(self, request: web.Request) -> web.Response:
        with_value = request.query.get("with_value") == "true"
        try:
            with self._admission.call_slot():
                call = await self._ask(request, frozenset({VALUE.name}) if with_value else MOVE_ALONE)
            answer = call.answer.moves
        except Exception as error:
            return _plain_failure(request, error)
        move = int(answer.moves[0])
        words = [MOVE_NAMES[move] if move >= 0 else NO_MOVE]
        if with_value and answer.value is not None:
            words.append(f"{answer.value[0]:.9g}")
        headers = {f"X-Octofold-{name.title()}": value for name, value in call.served.provenance.items()}
        return web.Response(text=f"{' '.join(words)}\n", headers=UNCACHED | headers)

    async def views(self, request: web.Request) -> web.Response:
        loop = asyncio.get_running_loop()
        with self._admission.call_slot():
            call = await self._ask(request)
            look = partial(self._views.of, call.served, call.boards)
            views = await loop.run_in_executor(self._views_thread, look)
        answer = call.answer.moves
        return _json(
            {
                "model": call.served.name,
                "version": call.served.version,
                **call.served.provenance,
                "move": int(answer.moves[0]),
                "probabilities": _first(answer.probabilities),
                "votes": _first(answer.votes),
                "legal": _first(answer.legal),
                "value": _first(answer.value),
                "values": _first(answer.values),
                "value_unit": call.served.card.value_unit,
                "depth": _first(answer.depth),
                "positions": _first(answer.positions),
                "search_seconds": call.answer.inference_seconds,
                "views": None if views is None else views[0].tolist(),
                "why_no_views": None if views is not None else self._views.why_not(call.served),
            }
        )

    async def results(self, _: web.Request) -> web.Response:
        return _json(await self._read(self._results.list))

    async def result(self, request: web.Request) -> web.Response:
        names = request.match_info
        start = request.query.get("start", "0")
        if not (start.isascii() and start.isdigit() and len(start) < 16):
            raise self._admission.count(
                InvalidRequest(f"start must be a number of bytes (1 to 15 digits), got {quoted(start)}")
            )
        piece = await self._read(partial(self._results.piece, names["result"], names["file"], int(start)))
        if piece is None:
            raise web.HTTPNotFound(reason="the result does not exist")
        headers = {**UNCACHED, "X-File-Age": f"{piece.age_seconds:.1f}"}
        return web.Response(body=piece.content, content_type="application/octet-stream", headers=headers)

    async def _ask(self, request: web.Request, outputs: frozenset[str] | None = None) -> AcceptedCall:
        """Submit the board in the address of a request, and return the answered call.

        The call computes `outputs`; None stands for all outputs.

        Raises:
            OctofoldError: the call failed.
        """
        try:
            question = _question(request)._replace(outputs=outputs)
        except InvalidRequest as error:
            self._admission.refusals.add(code_name(error))
            raise
        return await submit(self._admission, request, question)

    async def _read(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._results_thread, work)


def _described(
    card: Card,
    precision: Precision | Literal[""],
    *,
    is_default: bool = False,
    loading_seconds: float | None = None,
) -> dict[str, Any]:
    """Return the description of a model in `/page/about`."""
    return {
        "name": card.name,
        "version": str(card.version),
        "default": is_default,
        "loading_seconds": loading_seconds,
        "precision": precision,
        "symmetries": card.symmetries,
        "rule": card.decision_rule,
        "player": None if card.player is None else card.player.kind,
        "average": None if card.strength is None else card.strength.average,
        "average_interval": None if card.strength is None else card.strength.average_interval,
        **_values(card),
    }


def _values(card: Card) -> dict[str, Any]:
    """Return the unit of the values that a model gives to moves, and the temperature of their softmax.

    A network of afterstate values gives points. Its probabilities are the softmax of these points.
    """
    answers = (card.description or {}).get("answers")
    kind = answers.get("kind") if isinstance(answers, dict) else None
    if kind != "afterstate_value":
        return {"value_unit": card.value_unit, "temperature": None}
    return {"value_unit": "points", "temperature": card.temperature or TEMPERATURE}


def _question(request: web.Request) -> Request:
    """Return the board, the model and the version in the address of a request.

    Raises:
        InvalidRequest: a parameter is unknown, has several values, or has a wrong value.
    """
    query = request.query
    for name in query:
        if name not in PARAMETERS:
            raise InvalidRequest(f"unknown parameter {quoted(name)}; allowed: {', '.join(PARAMETERS)}")
        if len(set(query.getall(name))) > 1:
            raise InvalidRequest(f"the parameter {name} must have one value, got several")
    if query.get("with_value", "false") not in ("true", "false"):
        raise InvalidRequest(f"with_value must be true or false, got {quoted(query['with_value'])}")
    return Request(query.get("model", ""), query.get("version", ""), parse_board(query.get("board", "")))


def parse_board(text: str) -> NDArray[np.uint8] | str:
    """Return the board [1, 16] for sixteen digits, row by row from the top left, or an error message."""
    if len(text) != CELLS:
        return (
            f"board must have {CELLS} characters, got {len(text)}: write the exponent of each cell (0 is "
            "empty, 1 is the tile 2, a is 1024), such as 0112033447120a91"
        )
    exponents = [DIGITS.find(digit) for digit in text.lower()]
    if -1 in exponents:
        cell = exponents.index(-1)
        row, column = cell // 4 + 1, cell % 4 + 1
        return f"board: row {row}, column {column} must be one of {DIGITS}, got {quoted(text[cell])}"
    return np.array([exponents], np.uint8)


def _plain_failure(request: web.Request, error: Exception) -> web.Response:
    """Return the reply to a failed `/move`: one line of text, for programs that expect one word."""
    message, status, headers = failure_of(request, error)
    return web.Response(text=f"{message}\n", status=status, headers=UNCACHED | headers)


def _first(output: NDArray[Any] | None) -> Any:
    """Return an output for the first board; None if the model does not have the output."""
    return None if output is None else output[0].tolist()


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", headers=UNCACHED)

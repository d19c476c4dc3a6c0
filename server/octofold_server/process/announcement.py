"""The log lines of a server's start and stop: models, addresses, how to stop it, and who may call."""

from __future__ import annotations

import logging

from octofold_server.config.options import Config
from octofold_server.models.loading import ServedModel
from octofold_server.models.registry import Models
from octofold_server.system.sockets import address_of, is_loopback

_log = logging.getLogger(__name__)


def announce_configuration(config: Config) -> None:
    """Log all options, as --print-config prints them."""
    _log.debug("the configuration", extra={"fields": config.effective()})


def announce_service(config: Config, models: Models, port: int, rest_port: int | None) -> None:
    """Log the models, the addresses and how to stop the server."""
    newest = {served.name: served for served in models.served()}  # which are sorted by version
    told = (_described(served, newest.get(models.default) is served) for served in models.served())
    signed = f"; only those that a key in {config.verify_models} signed" if config.verify_models else ""
    waiting = ", ".join(f"{status.name}/{status.version}" for status in models.waiting())
    when_asked = f"; loaded when a call asks: {waiting}" if waiting else ""
    _log.info("models: %s%s%s", ", ".join(told), when_asked, signed)
    addresses = f"{address_of(config.host, port)} (gRPC)"
    if rest_port is not None:
        scheme = "https" if config.tls_certificate else "http"
        page = "the page, " if config.page else ""
        addresses += f" and {scheme}://{address_of(config.host, rest_port)} ({page}REST, /metrics)"
    _log.info("serving on %s; Ctrl-C or SIGTERM stops the server", addresses)


def announce_stop(grace_seconds: float) -> None:
    """Log the first signal to stop."""
    if grace_seconds:
        _log.info(
            "stopping: serving for %g more seconds, so that clients notice; a second Ctrl-C or SIGTERM ends "
            "this wait",
            grace_seconds,
        )
    else:
        _log.info("stopping")


def warn_of_strangers(config: Config, port: int) -> None:
    """Warn if other machines may call without a token or a certificate."""
    if config.tokens is not None or config.tls_client_ca is not None or is_loopback(config.host):
        return
    what = "call"
    if config.admin and config.admin_tokens is None:
        what = "call, and load and unload models"
    _log.warning(
        "everyone who can reach %s may %s: there is no --tokens file", address_of(config.host, port), what
    )


def _described(served: ServedModel, is_default: bool) -> str:
    what = served.precision or f"player {served.card.player and served.card.player.kind}"
    return f"{served.name} version {served.version} ({what}{', default' if is_default else ''})"

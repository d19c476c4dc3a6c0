"""The manifests agree with the image: user, ports, files, options, and the time to stop."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path, PurePosixPath

import pytest
from octofold_server.config.options import Config, ConfigError
from octofold_server.config.reading import read_config, unknown_variables
from octofold_server.http_transport.probes import PROBES
from support.manifests import (
    COMBINATIONS,
    Manifest,
    environment,
    needs_kubectl,
    resolved,
    servers,
)

pytestmark = needs_kubectl

ROOT = Path(__file__).parents[2]
KSERVE_MODELS = Path("/mnt/models")
"""Where KServe mounts them itself."""

LAST_SECONDS = 3.0
"""After the drain: for the last bytes, and for the process to end."""

WHERE = pytest.mark.parametrize("combination", COMBINATIONS)
WHERE_DEPLOYED = pytest.mark.parametrize("combination", [name for name in COMBINATIONS if name != "kserve"])


def instruction(name: str) -> str:
    """The Dockerfile's only instruction of this name."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    (found,) = re.findall(rf"^{name} (.*)$", text, re.MULTILINE)
    return str(found)


def image_environment() -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(instruction("ENV")))


def configuration(container: Manifest) -> Config:
    """What the server in a container makes of the image's variables and those of the manifest."""
    variables = {**image_environment(), **environment(container)}
    assert unknown_variables(variables) == []
    return read_config(container.get("args", []), variables)


@WHERE
def test_the_server_takes_every_flag_and_variable(combination: str) -> None:
    found = [configuration(container) for _, container in servers(resolved(combination))]
    assert len(found) == 1
    assert found[0].host == "::"
    assert not found[0].admin


@WHERE
def test_the_server_listens_on_the_ports_of_its_container(combination: str) -> None:
    for _, container in servers(resolved(combination)):
        config = configuration(container)
        ports = {port["containerPort"] for port in container["ports"]}
        assert ports <= {config.port, config.rest_port}
        assert ports <= set(map(int, instruction("EXPOSE").split()))
        names = {port.get("name"): port["containerPort"] for port in container["ports"]}
        assert names.get("grpc", config.port) == config.port
        assert names.get("http", config.rest_port) == config.rest_port


@WHERE
def test_every_probe_is_a_path_of_the_server_and_speaks_its_protocol(combination: str) -> None:
    for _, container in servers(resolved(combination)):
        config = configuration(container)
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            if name in container:
                asked = container[name]["httpGet"]
                assert asked["path"] in PROBES
                assert asked["port"] in ("http", config.rest_port)
                assert asked.get("scheme", "HTTP") == ("HTTPS" if config.tls_certificate else "HTTP")


@WHERE
def test_the_server_reads_and_writes_only_what_is_mounted_or_in_the_image(combination: str) -> None:
    for spec, container in servers(resolved(combination)):
        config = configuration(container)
        mounts = {PurePosixPath(mount["mountPath"]): mount for mount in container["volumeMounts"]}
        read_only = {path for path, mount in mounts.items() if mount.get("readOnly")}
        assert config.ready_file is not None
        assert mount_of(config.ready_file, mounts) not in (None, *read_only)
        for file in (config.tokens, config.tls_certificate, config.tls_key):
            if file is not None:
                where = mount_of(file, mounts)
                assert where in read_only
                (secret,) = [each for each in spec["volumes"] if each["name"] == mounts[where]["name"]]
                items = secret["secret"].get("items", [{"path": "tls.crt"}, {"path": "tls.key"}])
                assert file.name in {item["path"] for item in items}
        if config.models.is_absolute():
            assert mount_of(config.models, mounts) in read_only or config.models == KSERVE_MODELS
        else:
            assert (ROOT / config.models / config.default_model).is_dir()


def mount_of(file: Path, mounts: dict[PurePosixPath, Manifest]) -> PurePosixPath | None:
    """The mount that a file is in."""
    path = PurePosixPath(file)
    return next((mount for mount in mounts if mount == path or mount in path.parents), None)


@WHERE
def test_the_user_is_that_of_the_image(combination: str) -> None:
    user = instruction("USER").partition(":")[0]
    assert f"--uid {user} " in (ROOT / "Dockerfile").read_text()
    for spec, container in servers(resolved(combination)):
        context = {**spec.get("securityContext", {}), **container["securityContext"]}
        assert str(context["runAsUser"]) == user


@WHERE
def test_the_image_is_of_this_version(combination: str) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for _, container in servers(resolved(combination)):
        needs_gpu = "nvidia.com/gpu" in container["resources"]["limits"]
        assert container["image"].endswith(f":{version}-gpu" if needs_gpu else f":{version}")


@WHERE_DEPLOYED
def test_a_pod_has_time_to_finish_its_calls(combination: str) -> None:
    for spec, container in servers(resolved(combination)):
        config = configuration(container)
        pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        needed = pause + config.grace + config.drain + LAST_SECONDS
        assert needed <= spec["terminationGracePeriodSeconds"]


@WHERE
def test_no_variable_of_a_service_reaches_the_server(combination: str) -> None:
    with pytest.raises(
        ConfigError, match="OCTOFOLD_PORT"
    ):  # which Kubernetes sets for a Service named octofold
        read_config([], {"OCTOFOLD_PORT": "tcp://10.0.0.1:50051"})
    for spec, container in servers(resolved(combination)):
        assert spec.get("enableServiceLinks") is False or "OCTOFOLD_PORT" in environment(container)

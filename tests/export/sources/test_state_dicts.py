"""Weights in the file formats of PyTorch's users: each file gives the network that its owner uses."""

import io
import json
import warnings
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from octofold_export.errors import ExportError
from octofold_export.sources.sb3 import read_sb3
from octofold_export.sources.state_dicts import choose_state_dict
from octofold_export.sources.torch_files import read_weights
from octofold_export.sources.torch_network import TorchNetwork
from octofold_export.sources.torch_sources import load_state
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

INPUTS = torch.linspace(-1, 1, 32).reshape(2, 16)


class Net(nn.Module):
    """A small network in two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Linear(16, 8)
        self.norm = nn.BatchNorm1d(8)
        self.out = nn.Linear(8, 4)

    def forward(self, cells: Tensor) -> Tensor:
        answers: Tensor = self.out(torch.tanh(self.norm(self.conv(cells))))
        return answers


def some(seed: int = 1) -> Net:
    torch.manual_seed(seed)
    return Net().eval()


def prefixed(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in module.state_dict().items()}


def loaded(module: nn.Module, file: Path, state: str | None = None) -> tuple[nn.Module, str]:
    """Return a module with weights loaded like in the export, and the note about the choice."""
    content, _ = read_weights(file)
    chosen, note = choose_state_dict(module, content, state, str(file))
    load_state(module, chosen.tensors, file)
    return module.eval(), note


def check(module: nn.Module, file: Path, expected: nn.Module, state: str | None = None) -> str:
    found, note = loaded(module, file, state)
    with torch.no_grad():
        assert torch.equal(found(INPUTS), expected(INPUTS))
    return note


def averaged(net: Net) -> Any:
    return AveragedModel(net).state_dict()


def compiled(net: Net) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch itself
        return torch.compile(net)


FILES: dict[str, tuple[Callable[[Net, Net], Any], str]] = {
    "DQN": (
        lambda net, other: {
            "policy_net": net.state_dict(),
            "target_net": other.state_dict(),
            "optimizer": {"state": {0: {"exp_avg": torch.zeros(8, 16)}}, "param_groups": [{"lr": 0.1}]},
        },
        "policy_net",
    ),
    "Lightning": (
        lambda net, other: {
            "state_dict": prefixed("net.", net) | prefixed("target.", other),
            "hyper_parameters": Namespace(lr=np.float64(0.1)),
            "epoch": np.int64(3),
        },
        "state_dict.net",
    ),
    "averaged": (lambda net, _: averaged(net), ""),
    "EMA": (
        lambda net, other: {"model": other.state_dict(), "ema_model": averaged(net)},
        "ema_model",
    ),
    "compiled": (lambda net, _: prefixed("_orig_mod.", net), ""),
    "DDP, FSDP": (lambda net, _: prefixed("module._fsdp_wrapped_module.", net), ""),
    "pickled module": (lambda net, _: net, ""),
    "compiled module, pickled": (lambda net, _: compiled(net), ""),
    "list": (lambda net, _: [{"step": 3}, net.state_dict()], "1"),
    "NumPy": (
        lambda net, _: {"params": {name: value.numpy() for name, value in net.state_dict().items()}},
        "params",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_the_weights_that_its_owner_uses(name: str, tmp_path: Path) -> None:
    make, place = FILES[name]
    net = some(1)
    torch.save(make(net, some(2)), tmp_path / "file.pt")
    note = check(Net(), tmp_path / "file.pt", net)
    of = f" of {place!r}" if place else ""
    assert note.startswith(f"weights: the 9 tensors{of} in ")


def test_the_user_can_choose_another_state_and_sees_which_exist(tmp_path: Path) -> None:
    one, two = some(1), some(2)
    torch.save({"policy_net": one.state_dict(), "target_net": two.state_dict()}, tmp_path / "dqn.pt")
    assert "--state can choose 'target_net' instead" in check(Net(), tmp_path / "dqn.pt", one)
    check(Net(), tmp_path / "dqn.pt", two, "target_net")
    with pytest.raises(ExportError, match=r"--state must be one of 'policy_net', 'target_net', got best"):
        loaded(Net(), tmp_path / "dqn.pt", "best")
    torch.save({"best": one.state_dict(), "last": two.state_dict()}, tmp_path / "two.pt")
    with pytest.raises(ExportError, match=r"2 sets of weights fit .*: 'best', 'last'; choose one with --"):
        loaded(Net(), tmp_path / "two.pt")


class Trap:
    """An object that runs a command when its pickle is loaded."""

    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('executed')",)


def test_code_in_a_file_of_weights_is_not_run(tmp_path: Path) -> None:
    net = some()
    torch.save({"trap": Trap(), "net": net.state_dict()}, tmp_path / "trap.pt")
    check(Net(), tmp_path / "trap.pt", net)


def script(net: Net) -> bytes:
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(net, INPUTS), file)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (script, "a TorchScript program: use --torchscript"),
        (lambda _: b"\x08\x08\x12\x07pytorch", "an ONNX file: use --onnx"),
        (lambda _: b"\x89HDF\r\n\x1a\n", "a Keras file; docs/export.md has the command"),
        (lambda _: b"hello", "not a file of weights, or a damaged one; --weights takes a file of torch.save"),
        (lambda net: save(net.state_dict())[:-9], "a damaged file of weights"),
        (lambda _: b"version https://git-lfs.github.com/spec/v1\n", "fetch the file with `git lfs pull`"),
    ],
    ids=["TorchScript", "ONNX", "Keras", "text", "damaged", "Git LFS"],
)
def test_another_kind_of_file_is_refused_with_the_flag_that_accepts_it(
    content: Callable[[Net], bytes], message: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(content(some()))
    with pytest.raises(ExportError) as raised:
        read_weights(tmp_path / "file")
    assert message in str(raised.value)
    assert "weights_only" not in str(raised.value)


def save_sb3(file: Path, tensors: dict[str, Tensor], settings: dict[str, Any]) -> None:
    """Write a file in the format of Stable-Baselines3:
    https://stable-baselines3.readthedocs.io/en/master/guide/save_format.html."""
    weights = io.BytesIO()
    torch.save(tensors, weights)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data", json.dumps(settings))
        archive.writestr("policy.pth", weights.getvalue())
        archive.writestr("policy.optimizer.pth", weights.getvalue())


def test_a_stable_baselines_model_is_a_standard_policy_or_the_users_module(tmp_path: Path) -> None:
    torch.manual_seed(1)
    bodies = {part: nn.Sequential(nn.Linear(16, 8), nn.ReLU()) for part in ("policy_net", "value_net")}
    policy, value = nn.Linear(8, 4), nn.Linear(8, 1)
    tensors = prefixed("action_net.", policy) | prefixed("value_net.", value)
    for part, body in bodies.items():
        tensors |= prefixed(f"mlp_extractor.{part}.", body)
    relu = {"policy_kwargs": {"activation_fn": "<class 'torch.nn.modules.activation.ReLU'>"}}
    save_sb3(tmp_path / "ppo.zip", tensors, relu)
    network, kind, _, _ = read_sb3(tmp_path / "ppo.zip")
    answers = TorchNetwork(network, "ppo").run(INPUTS.numpy())
    assert kind == "policy_logits"
    with torch.no_grad():
        np.testing.assert_allclose(answers["policy"], policy(bodies["policy_net"](INPUTS)), rtol=1e-5)
        np.testing.assert_allclose(answers["value"], value(bodies["value_net"](INPUTS)), rtol=1e-5)

    net, target = some(1), some(2)
    own = prefixed("q_net.features_extractor.", net) | prefixed("q_net_target.features_extractor.", target)
    save_sb3(tmp_path / "own.zip", own, {})
    check(Net(), tmp_path / "own.zip", net)
    recurrent = tensors | prefixed("lstm_actor.", nn.LSTM(16, 16))
    shared = tensors | prefixed("mlp_extractor.shared_net.0.", nn.Linear(16, 16))
    normalized = tensors | {"mlp_extractor.policy_net.1.weight": torch.ones(8)}
    for others, reason in (
        (own, "features_extractor"),
        (recurrent, "lstm_actor"),
        (shared, "shared_net"),
        (normalized, r"policy_net\.1\.weight"),
        (prefixed("action_net.", policy), "not a model"),
    ):
        save_sb3(tmp_path / "others.zip", others, relu)
        with pytest.raises(ExportError, match=rf"{reason}.*--module .*--weights"):
            read_sb3(tmp_path / "others.zip")


def test_the_checksum_detects_a_flipped_bit(tmp_path: Path) -> None:
    torch.save(some().state_dict(), tmp_path / "net.pt")
    content = bytearray((tmp_path / "net.pt").read_bytes())
    place = content.index(some().out.weight.detach().numpy().tobytes())
    content[place] ^= 1
    (tmp_path / "net.pt").write_bytes(content)
    with pytest.raises(ExportError, match=r"damaged: the checksum of '.*' is wrong"):
        read_weights(tmp_path / "net.pt")

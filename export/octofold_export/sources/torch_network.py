"""A PyTorch network: a module with its weights, a TorchScript file or an exported program."""

from __future__ import annotations

import hashlib
import importlib
import io
import pickle
import sys
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves  # as the converter flattens answers; there is no public one

from octofold_export.description.description import ElementType
from octofold_export.description.inference import NetworkError
from octofold_export.errors import ExportError, first_line
from octofold_export.graph.builder import OPSET
from octofold_export.quiet import quiet
from octofold_export.sources.body import prepare
from octofold_export.sources.onnx_file import OnnxNetwork, check_size

_STATE_KEYS = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts usually store the state dict."""


class TorchNetwork:
    """Implements `described.TrainedNetwork` by calling a module or a TorchScript program."""

    shape: Sequence[int | None] | None = None
    type: ElementType | None = None

    def __init__(self, module: nn.Module, name: str) -> None:
        """Check the weights.

        Raises:
            ExportError: a weight is not a finite number.
        """
        self.module = module.eval()
        self._name = name
        for parameter, values in (*module.named_parameters(), *module.named_buffers()):
            # An infinite buffer may be a mask.
            wrong = ~torch.isfinite(values) if isinstance(values, nn.Parameter) else torch.isnan(values)
            if bool(wrong.any()):
                raise ExportError(f"{name}: {parameter!r} holds weights that are not finite numbers")

    @property
    def weights(self) -> int:
        """Number of trained values."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    @property
    def operators(self) -> str:
        """The classes of the parts of the network."""
        parts = (part for part in self.module.modules() if not list(part.children()))
        kinds = [str(getattr(part, "original_name", type(part).__name__)) for part in parts]
        return ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds))

    def run(self, inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run the network, as `inference.Network`."""
        try:
            with torch.inference_mode(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outputs = _named(self.module(torch.from_numpy(inputs)))
        except Exception as error:  # the user's code may raise any exception
            raise NetworkError(_said(error)) from error
        return {name: tensor.float().numpy() for name, tensor in outputs.items()}

    def body(self, output: str, example: NDArray[Any]) -> onnx.ModelProto:
        """Make a body, as `described.TrainedNetwork`."""
        inputs = torch.from_numpy(example)
        if isinstance(self.module, torch.jit.ScriptModule):
            names = [f"output_{name}" for name in self.run(example)]
            model = _script_to_onnx(self.module, inputs, names, self._name)
            return prepare(model, f"output_{output}", example)
        model = _module_to_onnx(_Selected(self.module, output), inputs, self._name)
        return prepare(model, model.graph.output[0].name, example)


class _Selected(nn.Module):
    """One of the outputs of a module."""

    def __init__(self, module: nn.Module, output: str) -> None:
        super().__init__()
        self.module = module
        self.output = output

    def forward(self, inputs: Tensor) -> Tensor:
        return _named(self.module(inputs))[self.output]


def read_module(place: str, weights: Path | None) -> tuple[TorchNetwork, str]:
    """Call `package.module:callable` and load `weights`; return the network and the SHA-256 of its weights.

    Raises:
        ExportError: the callable cannot be imported or does not return a module, or the weights do not fit.
    """
    module = _call(place)
    if weights is None:
        return TorchNetwork(module, place), _digest(module.state_dict())
    state, digest = _read_state(weights)
    state = _without_prefix(state, module.state_dict())
    _check_state(weights, module, state)
    module.load_state_dict(state)
    return TorchNetwork(module, place), digest


def read_torchscript(file: Path) -> tuple[TorchNetwork, str]:
    """Load a file of `torch.jit.save`.

    Raises:
        ExportError: the file cannot be read.
    """
    content = _read(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the format is deprecated, but its files are supported
            module = torch.jit.load(io.BytesIO(content), map_location="cpu")
    except RuntimeError as error:
        raise ExportError(f"{file}: not a TorchScript file ({first_line(error)})") from error
    return TorchNetwork(module, str(file)), hashlib.sha256(content).hexdigest()


class ExportedNetwork(OnnxNetwork):
    """An exported program: its ONNX form declares the inputs, and the program itself computes the answers."""

    def __init__(self, program: torch.export.ExportedProgram, model: onnx.ModelProto, name: str) -> None:
        """Check the weights.

        Raises:
            ExportError: a weight is not a finite number.
        """
        super().__init__(model, name)
        self._module = program.module()

    def run_batch(self, inputs: NDArray[Any]) -> Sequence[NDArray[Any]]:
        """Run the program itself, as `OnnxNetwork.run_batch` runs the model."""
        with torch.inference_mode():
            leaves = tree_leaves(self._module(torch.from_numpy(inputs)))  # in the order of the converter
        outputs = [leaf.float().numpy() for leaf in leaves if isinstance(leaf, Tensor)]
        if len(outputs) != len(self._names):
            raise TypeError(f"it answers with {len(outputs)} tensors, its ONNX form with {len(self._names)}")
        return outputs


def read_exported_program(file: Path) -> tuple[ExportedNetwork, str]:
    """Load a file of `torch.export.save` that is trusted.

    torch reads parts of it by pickle and evaluates its symbolic sizes by sympy, so the file can run code. No
    check of ours would be complete.

    Raises:
        ExportError: the file cannot be read.
    """
    content = _read(file)
    try:
        with quiet():
            program = torch.export.load(io.BytesIO(content))
    except Exception as error:  # a file may be wrong in any way
        raise ExportError(f"{file}: not an exported program ({first_line(error)})") from error
    try:
        with quiet():
            exported = torch.onnx.export(program, dynamo=True, opset_version=OPSET, verbose=False)
    except Exception as error:  # any step of the converter may fail
        raise ExportError(f"{file}: torch cannot convert it to ONNX ({first_line(error)})") from error
    assert exported is not None
    network = ExportedNetwork(program, exported.model_proto, str(file))
    return network, hashlib.sha256(content).hexdigest()


def _named(answer: Any) -> dict[str, Tensor]:
    """The outputs by name: the keys of a dictionary, the positions in a tuple, or `output`."""
    if isinstance(answer, Tensor):
        return {"output": answer}
    if isinstance(answer, Mapping):
        return {str(key): value for key, value in answer.items() if isinstance(value, Tensor)}
    if hasattr(answer, "_asdict"):
        return _named(answer._asdict())
    if not isinstance(answer, Sequence):
        raise TypeError(f"it returns a {type(answer).__name__}, not tensors")
    return {str(place): value for place, value in enumerate(answer) if isinstance(value, Tensor)}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def _call(place: str) -> nn.Module:
    package, colon, name = place.partition(":")
    if not (colon and package and name):
        raise ExportError(f"--module must be package.module:callable, got {place!r}")
    if (folder := str(Path.cwd())) not in sys.path:  # as `python -m` does
        sys.path.insert(0, folder)
    try:
        imported = importlib.import_module(package)
    except (Exception, SystemExit) as error:  # the user's code may raise any exception, or be a script
        raise ExportError(f"{package} cannot be imported: {_said(error)}") from error
    try:
        made = getattr(imported, name)
    except AttributeError as error:
        raise ExportError(f"{package} has no {name!r}") from error
    try:
        module = made if isinstance(made, nn.Module) else made()
    except (Exception, SystemExit) as error:
        raise ExportError(f"{place}() fails: {_said(error)}") from error
    if not isinstance(module, nn.Module):
        raise ExportError(f"{place}() returns a {type(module).__name__}, not a torch.nn.Module")
    return module


def _read(file: Path) -> bytes:
    try:
        check_size(file, file.stat().st_size)
        content = file.read_bytes()
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
    try:  # torch writes zip files without compression; others may unpack to any size
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_size(file, sum(entry.file_size for entry in archive.infolist()))
    except zipfile.BadZipFile:
        pass  # not torch's format, which the readers find out
    return content


def _read_state(file: Path) -> tuple[dict[str, Tensor], str]:
    content = _read(file)
    try:
        if file.suffix == ".safetensors":
            import safetensors.torch

            state: Any = safetensors.torch.load(content)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about old pickles
                state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ExportError(f"{file}: not a file of tensors alone; save the state dict by itself") from error
    except Exception as error:  # a damaged file's errors have no class in common
        raise ExportError(f"{file}: not a file of weights ({first_line(error)})") from error
    digest = hashlib.sha256(content).hexdigest()
    if _is_state(state):
        return dict(state), digest
    parts = {str(key): part for key, part in state.items()} if isinstance(state, Mapping) else {}
    states = [key for key, part in parts.items() if _is_state(part)]
    usual = [key for key in _STATE_KEYS if key in states]
    if usual or len(states) == 1:
        return dict(parts[(usual or states)[0]]), digest
    found = f"; the file has {', '.join(map(repr, parts))}" if parts else ""
    raise ExportError(f"{file}: not a state dict, which maps names to tensors{found}")


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, Mapping) and len(value) > 0 and all(isinstance(at, Tensor) for at in value.values())
    )


def _without_prefix(state: dict[str, Tensor], expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Remove a prefix that all names of `state` have before the expected ones.

    DataParallel, torch.compile and Lightning save a network as a part of a module of their own.
    """
    shared = [name for name in state if name.endswith(next(iter(expected), ""))]
    for name in shared:
        prefix = name.removesuffix(next(iter(expected), ""))
        if prefix.endswith(".") and state.keys() == {prefix + each for each in expected}:
            return {each: state[prefix + each] for each in expected}
    return state


def _check_state(file: Path, module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Check that the weights fit the module.

    Raises:
        ExportError: they do not fit; the message names the first difference.
    """
    expected = module.state_dict()
    for name, values in expected.items():
        if name not in state:
            listed = ", ".join(map(repr, list(state)[:3]))
            raise ExportError(
                f"{file}: {name!r} is missing; the module needs {len(expected)} tensors, the file has "
                f"{len(state)} ({listed}{', ...' if len(state) > 3 else ''})"
            )
        if state[name].shape != values.shape:
            found, wanted = list(state[name].shape), list(values.shape)
            raise ExportError(f"{file}: {name!r} has the shape {found}, the module needs {wanted}")
    for name in state:
        if name not in expected:
            raise ExportError(f"{file}: {name!r} is no part of the module")


def _digest(state: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, values in state.items():
        digest.update(name.encode())
        content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(content.numpy().data)
    return digest.hexdigest()


def _module_to_onnx(module: nn.Module, inputs: Tensor, name: str) -> onnx.ModelProto:
    try:
        with quiet():
            exported = torch.onnx.export(
                module.eval(),
                (inputs,),
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=({0: torch.export.Dim("N")},),
                verbose=False,
            )
    except Exception as error:  # the exporter's errors have no class in common
        cause = error.__cause__ or error
        raise ExportError(
            f"{name}: torch.onnx cannot export it with a free batch size: {first_line(cause)}"
        ) from error
    assert exported is not None
    return exported.model_proto


def _script_to_onnx(
    module: torch.jit.ScriptModule, inputs: Tensor, names: Sequence[str], name: str
) -> onnx.ModelProto:
    file = io.BytesIO()
    try:
        with quiet():
            torch.onnx.export(
                module,
                (inputs,),
                cast(Any, file),
                dynamo=False,  # the newer exporter does not support TorchScript
                opset_version=OPSET,
                input_names=["boards_as_read"],
                output_names=names,
                dynamic_axes={"boards_as_read": {0: "N"}},
            )
    except Exception as error:  # the exporter's errors have no class in common
        raise ExportError(f"{name}: torch.onnx cannot export it: {first_line(error)}") from error
    return onnx.load_from_string(file.getvalue())

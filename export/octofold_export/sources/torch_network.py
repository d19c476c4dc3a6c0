"""Runs and converts PyTorch networks: modules with their weights, and TorchScript files."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import onnx
import torch
from numpy.typing import NDArray
from octofold_game.errors import first_line
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution
from torch.overrides import TorchFunctionMode

from octofold_export.description.description import ElementType
from octofold_export.description.network import NetworkError, NoBatchError
from octofold_export.errors import ExportError
from octofold_export.graph.builder import OPSET
from octofold_export.printing import quiet
from octofold_export.sources.file_kinds import advice, kind_of
from octofold_export.sources.onnx_body import loop_over_boards, make_body
from octofold_export.sources.torch_files import is_lazy, read_file

UserEncoder = Callable[[Tensor], Tensor]
"""A function of the user that makes the network's input from exponents `[N, 16] int64`."""

# To validate its arguments, a distribution branches on their values, which a graph cannot express.
Distribution.set_default_validate_args(False)

_BRANCHES = (
    "the network's forward branches on the values of tensors, as in `if x.sum() > 0`, which a graph cannot "
    "express; use torch.where instead"
)
_WITHOUT_KERNELS = (torch.bfloat16, torch.float16)
"""Types for which onnxruntime has few operators on CPUs. Networks of these types are converted to float32."""


class TorchNetwork:
    """A `described_network.TrainedNetwork` that runs a module or a TorchScript program."""

    shape: Sequence[int | None] | None = None
    type: ElementType | None = None

    def __init__(self, module: nn.Module, name: str, encoder: UserEncoder | None = None) -> None:
        """Refuse weights that are not finite, and convert 16-bit modules to float32.

        Args:
            module: takes a batch and returns numbers for each board.
            name: the name of the network in messages.
            encoder: makes the input of the module from exponents; None if the description defines the input.

        Raises:
            ExportError: a parameter is not finite, a buffer contains NaN, or one of them has no values yet.
        """
        kinds = set()
        for parameter, values in (*module.named_parameters(), *module.named_buffers()):
            if values.is_meta or is_lazy(values):
                raise ExportError(
                    f"{name}: {parameter!r} has no values yet; give the file of the weights with --weights"
                )
            # An infinite value in a buffer may be a mask.
            wrong = ~torch.isfinite(values) if isinstance(values, nn.Parameter) else torch.isnan(values)
            if bool(wrong.any()):
                raise ExportError(f"{name}: {parameter!r} contains NaN or infinite numbers")
            kinds.add(values.dtype)
        module = module.eval()
        if not kinds.isdisjoint(_WITHOUT_KERNELS):
            module = module.float()
        elif torch.float64 in kinds and encoder is None:
            self.type = "float64"
        self.module: nn.Module = module if encoder is None else _Encoded(encoder, module)
        self._name = name

    @property
    def weights(self) -> int:
        """Number of trained values."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    @property
    def operators(self) -> str:
        """The classes of the network's innermost modules, with their counts."""
        parts = (part for part in self.module.modules() if not list(part.children()))
        kinds = [str(getattr(part, "original_name", type(part).__name__)) for part in parts]
        return ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds))

    def run(self, inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run the network, as `Network.run` does."""
        try:
            with torch.inference_mode(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outputs = named_tensors(self.module(torch.from_numpy(inputs)))
        except Exception as error:  # the user's code may raise any exception
            needs_more = isinstance(error, TypeError) and "positional argument" in str(error)
            hint = "; wrap it in a module whose forward takes only the boards" if needs_more else ""
            reason = _BRANCHES if _branches_on_values(error) else f"{error_line(error)}{hint}"
            raise NetworkError(reason) from error
        numbers = (tensor.float() if tensor.is_floating_point() else tensor for tensor in outputs.values())
        return dict(zip(outputs, (tensor.numpy() for tensor in numbers), strict=True))

    def operations(self, inputs: NDArray[Any]) -> int:
        """Return the number of torch functions that the module calls, as `Network.operations` does."""
        counting = _Counting()
        with counting:
            self.run(inputs)
        return counting.calls

    def one_by_one(self) -> TorchNetwork:
        """Return a network that runs this one on each board of a batch separately."""
        single = TorchNetwork(_OneByOne(self.module), self._name)
        single.type = self.type
        return single

    def body(self, outputs: Sequence[str], example: NDArray[Any]) -> onnx.ModelProto:
        """Make the body of the network, as `described_network.TrainedNetwork.body` does."""
        inputs = torch.from_numpy(example)
        if isinstance(self.module, torch.jit.ScriptModule):
            names = [f"output_{name}" for name in self.run(example)]
            model = _script_to_onnx(self.module, inputs, names, self._name)
            return make_body(model, [f"output_{name}" for name in outputs], example)
        try:
            exported = _module_to_onnx(
                _Selected(self.module, outputs), inputs, self._name, ({0: torch.export.Dim("N")},)
            )
            return _make_body_with_all_outputs(exported, example)
        except ExportError as error:
            if not isinstance(self.module, _OneByOne):
                raise error if _BRANCHES in str(error) else NoBatchError(str(error)) from error
        single = _Selected(self.module.single, outputs)
        return _make_body_with_all_outputs(
            loop_over_boards(_module_to_onnx(single, inputs[0], self._name)), example
        )


class _Counting(TorchFunctionMode):
    """Counts calls of torch's functions while it is active."""

    calls = 0

    def __torch_function__(
        self,
        function: Callable[..., Any],
        _types: Sequence[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        self.calls += 1
        return function(*arguments, **(keywords or {}))


class _Selected(nn.Module):
    """A module that returns only some outputs of another module."""

    def __init__(self, module: nn.Module, outputs: Sequence[str]) -> None:
        super().__init__()
        self.module = module
        self.outputs = outputs

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        named = named_tensors(self.module(inputs))
        return tuple(named[name] for name in self.outputs)


class _OneBoard(nn.Module):
    """A module that takes one board without a batch dimension and returns vectors."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, board: Tensor) -> dict[str, Tensor]:
        answer = named_tensors(self.module(board[None]))
        return {name: numbers.reshape(-1) for name, numbers in answer.items()}


class _OneByOne(nn.Module):
    """A module that runs another module on each board of a batch separately."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.single = _OneBoard(module)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        answers: dict[str, Tensor] = torch.vmap(self.single)(inputs)
        return answers


class _Encoded(nn.Module):
    """A module that runs the user's encoder before another module."""

    def __init__(self, encoder: UserEncoder, module: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.module = module

    def forward(self, exponents: Tensor) -> Any:
        return self.module(self.encoder(exponents))


def read_torchscript(file: Path) -> tuple[TorchNetwork, str]:
    """Return the network in a TorchScript file of `torch.jit.save`, and the file's SHA-256.

    Raises:
        ExportError: the file is not a readable TorchScript file, or its weights are not finite.
    """
    content = read_file(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that TorchScript is deprecated
            module = torch.jit.load(io.BytesIO(content), map_location="cpu")
    except RuntimeError as error:
        known = "" if kind_of(content) == "TorchScript" else advice(content)
        reason = known or f" that torch can load ({first_line(error).partition('. ')[0]})"
        raise ExportError(f"{file}: not a TorchScript file{reason}") from error
    return TorchNetwork(module, str(file)), hashlib.sha256(content).hexdigest()


def named_tensors(answer: Any) -> dict[str, Tensor]:
    """Return the tensors in an answer by name.

    A single tensor has the name `output`. Other names are paths of keys, fields and positions. A
    `Categorical` is replaced by its logits.

    Raises:
        TypeError: the answer contains no tensors.
    """
    if isinstance(answer, Categorical):
        answer = answer.logits
    if isinstance(answer, Tensor):
        return {"output": answer}
    found = dict(_tensors(answer))
    if not found:
        raise TypeError(f"the network must return tensors, got {type(answer).__name__}")
    return found


def _tensors(answer: Any) -> Iterator[tuple[str, Tensor]]:
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        answer = {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}
    elif hasattr(answer, "_asdict"):
        answer = answer._asdict()
    elif isinstance(answer, Sequence) and not isinstance(answer, str):
        answer = dict(enumerate(answer))
    for key, value in answer.items() if isinstance(answer, Mapping) else ():
        value = value.logits if isinstance(value, Categorical) else value
        if isinstance(value, Tensor):
            yield str(key), value
        else:
            yield from ((f"{key}.{name}", inner) for name, inner in _tensors(value))


def error_line(error: BaseException) -> str:
    """Return the class and the message of an exception of the user's code in one line."""
    return f"{type(error).__name__}: {first_line(error)}"


def _make_body_with_all_outputs(model: onnx.ModelProto, example: NDArray[Any]) -> onnx.ModelProto:
    return make_body(model, [output.name for output in model.graph.output], example)


def _module_to_onnx(
    module: nn.Module, inputs: Tensor, name: str, dynamic_shapes: Any = None
) -> onnx.ModelProto:
    try:
        with quiet():
            exported = torch.onnx.export(
                module.eval(),
                (inputs,),
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=dynamic_shapes,
                verbose=False,
            )
    except Exception as error:  # the exporter raises errors of unrelated classes
        cause = error.__cause__ or error
        size = " with a free batch size" if dynamic_shapes else ""
        reason = f"torch.onnx cannot export the network{size}: {first_line(cause)}"
        raise ExportError(f"{name}: {_BRANCHES if _branches_on_values(cause) else reason}") from error
    assert exported is not None
    return exported.model_proto


def _branches_on_values(error: BaseException) -> bool:
    return "data-dependent" in str(error) or "data_dependent" in str(error)


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
                dynamo=False,  # the exporter with dynamo does not support TorchScript
                opset_version=OPSET,
                input_names=["boards_as_read"],
                output_names=names,
                dynamic_axes={"boards_as_read": {0: "N"}},
            )
    except Exception as error:  # the exporter raises errors of unrelated classes
        raise ExportError(f"{name}: torch.onnx cannot export the network: {first_line(error)}") from error
    return onnx.load_from_string(file.getvalue())

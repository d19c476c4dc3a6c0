"""Finds the weights of a module in a checkpoint, under any key and with the names that wrappers give.

A training script may save a network alone, beside a copy of it (a target network, an average of the weights),
as a part of a larger module, or in wrappers that change the names of tensors. Each group of tensors that fits
the module is a `StateDict`. If several groups fit, the one with a usual name is chosen; otherwise the user
must choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from octofold_export.errors import ExportError
from octofold_export.sources.torch_files import Inert, is_lazy, tensors_of_module

_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module", "module")
"""Parts of names that torch.compile, FSDP, activation checkpointing, Lightning and DDP insert."""
_NOT_WEIGHTS = ("n_averaged", "num_batches_tracked", "_extra_state")
"""Last parts of the names of tensors that are not weights."""
_COPIES = ("target", "old", "frozen", "ref", "reference", "teacher", "previous", "initial")
_AVERAGES = ("ema", "averaged", "average", "avg", "swa", "shadow")
_POLICIES = ("policy", "online", "actor", "model", "net", "network", "state_dict", "q_net", "q_network")
_DEEPEST = 6
_MOST_STATES = 64
_SHOWN = 8

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class StateDict:
    """Tensors in a file that fit a module."""

    name: str
    """The keys that lead to the tensors in the file, joined by dots; empty for the top level."""
    tensors: dict[str, Tensor]
    """The tensors, by their names in the module."""

    @property
    def words(self) -> frozenset[str]:
        """The parts of the name, in lower case."""
        parts = self.name.lower().replace("-", "_").replace(".", "_").split("_")
        return frozenset([*parts, *self.name.lower().split(".")])


def choose_state_dict(
    module: nn.Module, content: Any, wanted: str | None, file: str
) -> tuple[StateDict, str]:
    """Return the weights in the `content` of `file` that fit `module`, and a line that describes them.

    `wanted` is the name of the weights; None to choose by the usual names.

    Raises:
        ExportError: no weights fit, `wanted` names none that fit, or several fit and no usual name decides.
    """
    mappings = list(_mappings(content))
    states = [state for where, tensors in mappings for state in _fitting(module, where, tensors)]
    states = _distinct(states)
    listed = ", ".join(_quoted(state.name) for state in states[:_SHOWN])
    if not states:
        raise ExportError(f"{file}: {_misfit(module, mappings, content)}")
    if wanted is not None:
        named = [state for state in states if wanted in (state.name, state.name.rpartition(".")[2])]
        if len(named) != 1:
            raise ExportError(f"{file}: --state must be one of {listed}, got {wanted}")
        chosen = named[0]
    else:
        likely = _likely(states)
        if len(likely) != 1:
            raise ExportError(
                f"{file}: {len(states)} sets of weights fit the module: {listed}; choose one with --state"
            )
        chosen = likely[0]
    others = [_quoted(state.name) for state in states if state is not chosen][:_SHOWN]
    beside = f"; --state can choose {', '.join(others)} instead" if others else ""
    place = f" of {_quoted(chosen.name)}" if chosen.name else ""
    return chosen, f"weights: the {len(chosen.tensors)} tensors{place} in {file}{beside}"


def _likely(states: Sequence[StateDict]) -> Sequence[StateDict]:
    """Return the likely state dicts by name: no copies if possible, averages before others, then policies."""
    left = [state for state in states if state.words.isdisjoint(_COPIES)] or list(states)
    for names in (_AVERAGES, _POLICIES):
        named = [state for state in left if not state.words.isdisjoint(names)]
        if len(left) > 1 and named:
            left = named
    return left


def _mappings(content: Any, where: str = "", depth: int = 0) -> Iterator[tuple[str, Tensors]]:
    """Yield the keys that lead to each group of named tensors in `content`, at any depth, and the group."""
    while isinstance(content, Inert):
        tensors = tensors_of_module(content)
        content = tensors or content.state
    if isinstance(content, list | tuple):
        content = {str(at): value for at, value in enumerate(content)}
    if not isinstance(content, Mapping) or depth > _DEEPEST:
        return
    named = {key: _as_tensor(value) for key, value in content.items() if isinstance(key, str)}
    tensors = {key: value for key, value in named.items() if isinstance(value, Tensor)}
    if tensors:
        yield where, tensors
    for key, value in named.items():
        yield from _mappings(value, f"{where}.{key}" if where else key, depth + 1)


def _as_tensor(value: Any) -> Any:
    is_numbers = isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
    return torch.from_numpy(np.array(value)) if is_numbers else value


def _fitting(module: nn.Module, where: str, tensors: Tensors) -> Iterator[StateDict]:
    """Yield the sets of `tensors` that fit `module`; the names in a set begin with the same prefix."""
    groups = _names_of_tensors(module)
    expected = module.state_dict()
    keep = frozenset(part for name in expected for part in name.split("."))
    known = {_plain(name, keep): value for name, value in tensors.items()}
    anchors = [_plain(alias, keep) for alias in groups[0]] if groups else []
    prefixes = {
        name.removesuffix(anchor)
        for name in known
        for anchor in anchors
        if name == anchor or name.endswith(f".{anchor}")
    }
    for prefix in sorted(prefixes, key=lambda prefix: (len(prefix), prefix))[:_MOST_STATES]:
        own = {name[len(prefix) :]: value for name, value in known.items() if name.startswith(prefix)}
        found = _filled(module, groups, own, keep)
        if found is not None and not _foreign(own, expected, keep):
            path = ".".join(part for part in (where, prefix.rstrip(".")) if part)
            yield StateDict(path, found)


def _filled(
    module: nn.Module, groups: Sequence[Sequence[str]], own: Tensors, keep: frozenset[str]
) -> dict[str, Tensor] | None:
    """Return the tensors of `module` by its own names; None if one is missing or has another shape."""
    expected = module.state_dict()
    found: dict[str, Tensor] = {}
    for aliases in groups:
        value = next((own[_plain(alias, keep)] for alias in aliases if _plain(alias, keep) in own), None)
        if value is None:
            if not all(_is_no_weight(alias) for alias in aliases):
                return None
            continue
        value = _dense(value)
        if not is_lazy(expected[aliases[0]]) and value.shape != expected[aliases[0]].shape:
            return None
        found.update(dict.fromkeys(aliases, value))
    return found


def _foreign(own: Tensors, expected: Tensors, keep: frozenset[str]) -> list[str]:
    """Return the names of weights in `own` that the module, whose tensors are `expected`, does not have."""
    plain = {_plain(name, keep) for name in expected}
    return [name for name in own if name not in plain and not _is_no_weight(name)]


def _names_of_tensors(module: nn.Module) -> list[list[str]]:
    """Return the names of the module's tensors in groups; the names of a shared tensor form a group."""
    groups: dict[int, list[str]] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, Tensor):
            groups.setdefault(id(value), []).append(name)
    return list(groups.values())


def _distinct(states: Sequence[StateDict]) -> list[StateDict]:
    """Return the state dicts without repetitions of equal tensors."""
    kept: list[StateDict] = []
    for state in states:
        if not any(_equal(state.tensors, other.tensors) for other in kept):
            kept.append(state)
    return kept


def _equal(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def _plain(name: str, keep: frozenset[str]) -> str:
    """Return a name without the parts that wrappers insert, unless the module itself has them (`keep`)."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS or part in keep)


def _is_no_weight(name: str) -> bool:
    return name.rpartition(".")[2] in _NOT_WEIGHTS


def _dense(value: Tensor) -> Tensor:
    if value.is_quantized:
        return value.dequantize()
    return value if value.layout == torch.strided else value.to_dense()


def _misfit(module: nn.Module, mappings: Sequence[tuple[str, Tensors]], content: Any) -> str:
    """Return why no tensors fit `module`: its first difference from the most similar group."""
    expected = module.state_dict()
    keep = frozenset(part for name in expected for part in name.split("."))
    if not mappings:
        keys = ", ".join(map(repr, content)) if isinstance(content, Mapping) else ""
        return (
            "must be a state dict, which maps names to tensors"
            f"{f'; the keys of the file are {keys[:200]}' if keys else ''}"
        )
    candidates = [{_plain(name, keep): value for name, value in tensors.items()} for _, tensors in mappings]
    known = max(candidates, key=lambda each: sum(_plain(name, keep) in each for name in expected))
    for name, values in expected.items():
        found = known.get(_plain(name, keep))
        if found is None and not _is_no_weight(name):
            listed = ", ".join(map(repr, list(known)[:3]))
            return (
                f"{name!r} is missing; the module needs {len(expected)} tensors, but the file has "
                f"{len(known)} ({listed}{', ...' if len(known) > 3 else ''})"
            )
        if found is not None and not is_lazy(values) and found.shape != values.shape:
            return f"{name!r} must have the shape {list(values.shape)}, got {list(found.shape)}"
    foreign = _foreign(known, expected, keep)
    return f"the module has no tensor {foreign[0]!r}" if foreign else "the tensors do not fit the module"


def _quoted(name: str) -> str:
    return repr(name) if name else "'' (the top level)"

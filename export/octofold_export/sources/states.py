"""Finds the weights of a module in a checkpoint, under any key and with the names of any wrapper.

Training scripts save a network alone, with a copy of it (a target network, an average of the weights), as a
part of a larger module, or in wrappers that change the names. Each place whose tensors fit the module is a
`StateDict`. If several fit, the name decides, or the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from octofold_export.errors import ExportError
from octofold_export.sources.torch_files import Inert, is_lazy, unpickled_module

_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module", "module")
"""Parts of names that torch.compile, FSDP, activation checkpointing, Lightning and DDP insert."""
_BESIDE = ("n_averaged", "num_batches_tracked", "_extra_state")
"""Tensors that are not weights, by the last parts of their names."""
_COPIES = ("target", "old", "frozen", "ref", "reference", "teacher", "previous", "initial")
_AVERAGES = ("ema", "averaged", "average", "avg", "swa", "shadow")
_POLICIES = ("policy", "online", "actor", "model", "net", "network", "state_dict", "q_net", "q_network")
_DEEPEST = 6
_MOST_STATES = 64
_SHOWN = 8

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class StateDict:
    """Tensors of a file that fit a module."""

    name: str
    """The place of the tensors in the file; empty for the top."""
    tensors: dict[str, Tensor]
    """The tensors by their names in the module."""

    @property
    def words(self) -> frozenset[str]:
        """The parts of the name, in lower case."""
        parts = self.name.lower().replace("-", "_").replace(".", "_").split("_")
        return frozenset([*parts, *self.name.lower().split(".")])


def choose_state(module: nn.Module, content: Any, wanted: str | None, file: str) -> tuple[StateDict, str]:
    """Return the state in the `content` of `file` that fits `module`, and a line that describes it.

    Raises:
        ExportError: no state fits, or several fit and no name decides; the message lists them.
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
                f"{file}: {len(states)} sets of weights fit the module: {listed}; choose one by --state NAME"
            )
        chosen = likely[0]
    others = [_quoted(state.name) for state in states if state is not chosen][:_SHOWN]
    beside = f"; it also has {', '.join(others)}, which --state chooses" if others else ""
    place = f" of {_quoted(chosen.name)}" if chosen.name else ""
    return chosen, f"weights: the {len(chosen.tensors)} tensors{place} in {file}{beside}"


def _likely(states: Sequence[StateDict]) -> Sequence[StateDict]:
    """Return the states that are usually meant: no copies, the average of the weights, the policy."""
    left = [state for state in states if state.words.isdisjoint(_COPIES)] or list(states)
    for names in (_AVERAGES, _POLICIES):
        named = [state for state in left if not state.words.isdisjoint(names)]
        if len(left) > 1 and named:
            left = named
    return left


def _mappings(content: Any, where: str = "", depth: int = 0) -> Iterator[tuple[str, Tensors]]:
    """Yield all groups of named tensors in `content`, at any depth."""
    while isinstance(content, Inert):
        tensors = unpickled_module(content)
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
    """Yield the states of `module` among `tensors`, each with a different prefix."""
    groups = _tied(module)
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
    """Return the tensors of `module` by its names, or None if one is missing or of another shape."""
    expected = module.state_dict()
    found: dict[str, Tensor] = {}
    for aliases in groups:
        value = next((own[_plain(alias, keep)] for alias in aliases if _plain(alias, keep) in own), None)
        if value is None:
            if not all(_is_beside(alias) for alias in aliases):
                return None
            continue
        value = _dense(value)
        if not is_lazy(expected[aliases[0]]) and value.shape != expected[aliases[0]].shape:
            return None
        found.update(dict.fromkeys(aliases, value))
    return found


def _foreign(own: Tensors, expected: Tensors, keep: frozenset[str]) -> list[str]:
    """Return the names of tensors that are not part of the module or of a larger one."""
    plain = {_plain(name, keep) for name in expected}
    return [name for name in own if name not in plain and not _is_beside(name)]


def _tied(module: nn.Module) -> list[list[str]]:
    """Return the names of the module's tensors, grouped by tensor."""
    groups: dict[int, list[str]] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, Tensor):
            groups.setdefault(id(value), []).append(name)
    return list(groups.values())


def _distinct(states: Sequence[StateDict]) -> list[StateDict]:
    """Return the states without those that are equal to an earlier one."""
    kept: list[StateDict] = []
    for state in states:
        if not any(_equal(state.tensors, other.tensors) for other in kept):
            kept.append(state)
    return kept


def _equal(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def _plain(name: str, keep: frozenset[str]) -> str:
    """Return a name without the parts of wrappers that the module itself does not have."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS or part in keep)


def _is_beside(name: str) -> bool:
    return name.rpartition(".")[2] in _BESIDE


def _dense(value: Tensor) -> Tensor:
    if value.is_quantized:
        return value.dequantize()
    return value if value.layout == torch.strided else value.to_dense()


def _misfit(module: nn.Module, mappings: Sequence[tuple[str, Tensors]], content: Any) -> str:
    """Return why no tensors fit `module`: the first difference of the most similar ones."""
    expected = module.state_dict()
    keep = frozenset(part for name in expected for part in name.split("."))
    if not mappings:
        keys = ", ".join(map(repr, content)) if isinstance(content, Mapping) else ""
        return (
            f"not a state dict, which maps names to tensors{f'; the file has {keys[:200]}' if keys else ''}"
        )
    candidates = [{_plain(name, keep): value for name, value in tensors.items()} for _, tensors in mappings]
    known = max(candidates, key=lambda each: sum(_plain(name, keep) in each for name in expected))
    for name, values in expected.items():
        found = known.get(_plain(name, keep))
        if found is None and not _is_beside(name):
            listed = ", ".join(map(repr, list(known)[:3]))
            return (
                f"{name!r} is missing; the module needs {len(expected)} tensors, the file has "
                f"{len(known)} ({listed}{', ...' if len(known) > 3 else ''})"
            )
        if found is not None and not is_lazy(values) and found.shape != values.shape:
            return f"{name!r} has the shape {list(found.shape)}, the module needs {list(values.shape)}"
    foreign = _foreign(known, expected, keep)
    return f"{foreign[0]!r} is not a part of the module" if foreign else "its tensors do not fit the module"


def _quoted(name: str) -> str:
    return repr(name) if name else "'' (the top)"

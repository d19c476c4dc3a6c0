"""Computes the digest of a local player from its code, its options and its data.

Two players with the same digest play the same games. An evaluation that continues in an existing folder uses
the digest to check that the player is the same.

The digest covers the bytecode of the class, its bases, and the functions, classes and values that they name.
For installed packages, it covers only name and version.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from copyreg import dispatch_table
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

INSTALLED = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
MOST_OBJECTS = 100_000
"""A player with more objects than this has no digest, because it would take minutes."""
MOST_FILES = 1_000
"""A player that uses a package with more source files than this has no digest."""
_NOT_BEHAVIOR = frozenset(
    {
        "__abstractmethods__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__dict__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__doc__",
        "__firstlineno__",
        "__module__",
        "__parameters__",
        "__slotnames__",
        "__static_attributes__",
        "__weakref__",
        "_abc_impl",
    }
)
"""Entries of a class's namespace that do not affect its behavior."""


class _Unknown(Exception):
    """The digest cannot cover an object."""


def digest(player: object) -> str | None:
    """The SHA-256 digest of everything that determines a player's moves, in hexadecimal.

    None if the digest cannot cover a part of the player.
    """
    try:
        return _Walk().digest(player)
    except (_Unknown, RecursionError):
        return None


class _Walk:
    """Feeds an object and everything that it refers to into a hash, each object once and in a fixed order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []  # keeps the objects alive, because Python reuses ids

    def digest(self, root: object) -> str:
        """The digest of `root`, in hexadecimal."""
        self._feed(root)
        return self._hash.hexdigest()

    def _say(self, kind: str, content: bytes | str = b"") -> None:
        data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
        self._hash.update(f"{kind} {len(data)}\n".encode())
        self._hash.update(data)

    def _feed(self, value: Any) -> None:
        if value is None or value is Ellipsis or value is NotImplemented:
            return self._say("constant", repr(value))
        if type(value) in (bool, int, float, complex):
            return self._say(type(value).__name__, repr(value))
        if type(value) in (str, bytes, bytearray):
            return self._say(type(value).__name__, value)
        if isinstance(value, PurePath):
            return self._say("path", str(value))
        if id(value) in self._seen:
            return self._say("again", str(self._seen[id(value)]))
        if len(self._seen) >= MOST_OBJECTS:
            raise _Unknown
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        return self._feed_object(value)

    def _feed_object(self, value: Any) -> None:
        if isinstance(value, np.ndarray | np.generic) and value.dtype.hasobject is False:
            self._say("array", f"{value.dtype.str} {value.shape}")
            self._say("cells", value.tobytes())
        elif type(value) in (tuple, list):
            self._feed_all(type(value).__name__, value)
        elif type(value) is dict:
            self._feed_mapping("dict", value)
        elif type(value) in (set, frozenset):
            # Sets have no order, so each member gets a digest of its own.
            self._say(type(value).__name__, ",".join(sorted(_Walk().digest(member) for member in value)))
        elif isinstance(value, Enum):
            self._say("enum", f"{type(value).__qualname__}.{value.name}")
        elif isinstance(value, ModuleType):
            self._feed_module(value)
        elif isinstance(value, type):
            self._feed_class(value)
        elif isinstance(value, CodeType):
            self._feed_code(value)
        else:
            self._feed_callable_or_instance(value)

    def _feed_callable_or_instance(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._feed_function(value)
        elif isinstance(value, MethodType):
            self._feed_all("method", (value.__func__, value.__self__))
        elif isinstance(value, BuiltinFunctionType):
            self._feed_all("builtin", (value.__qualname__, getattr(value, "__self__", None)))
        elif isinstance(value, functools.partial):
            self._feed_all("partial", (value.func, value.args, value.keywords))
        elif isinstance(value, staticmethod | classmethod):
            self._feed_all(type(value).__name__, (value.__func__,))
        elif isinstance(value, property):
            self._feed_all("property", (value.fget, value.fset))
        elif callable(value) and isinstance(inner := _compiled_or_cached(value), FunctionType):
            # The compiled code and the cache do not matter.
            self._feed_all("wrapped", (type(value).__qualname__, inner))
        else:
            self._feed_instance(value)

    def _feed_all(self, kind: str, values: Iterable[Any]) -> None:
        listed = list(values)
        self._say(kind, str(len(listed)))
        for value in listed:
            self._feed(value)

    def _feed_mapping(self, kind: str, values: Mapping[Any, Any]) -> None:
        """Feed a mapping, with its names in alphabetical order: the order of assignment does not matter."""
        names = sorted(key for key in values if isinstance(key, str))
        others = [key for key in values if not isinstance(key, str)]
        self._feed_all(kind, (part for key in (*names, *others) for part in (key, values[key])))

    def _feed_class(self, kind: type) -> None:
        self._say("class", kind.__qualname__)
        if _installed(kind.__module__):
            return self._say("package", f"{kind.__module__} {_package(kind.__module__)}")
        self._feed_all("bases", kind.__bases__)
        return self._feed_mapping(
            "members", {name: value for name, value in vars(kind).items() if name not in _NOT_BEHAVIOR}
        )

    def _feed_function(self, function: FunctionType) -> None:
        self._say("function", function.__qualname__)
        if _installed(function.__module__ or ""):
            return self._say("package", f"{function.__module__} {_package(function.__module__)}")
        self._feed_code(function.__code__)
        self._feed((function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                self._feed(cell.cell_contents)
            except ValueError:  # not yet assigned
                self._say("empty cell")
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                self._say("global", name)
                self._feed(function.__globals__[name])
        return None

    def _feed_code(self, code: CodeType) -> None:
        self._say("code", code.co_code)
        self._say("handlers", code.co_exceptiontable)
        self._feed((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags))
        self._feed_all("constants", code.co_consts)

    def _feed_instance(self, value: Any) -> None:
        """Feed the class of an object and the state that pickle would store."""
        if isinstance(value, MemberDescriptorType | GetSetDescriptorType):
            return self._say("descriptor", value.__name__)
        self._say("instance")
        self._feed(type(value))
        try:
            if _is_tensor(value):
                # Pickle does not store a tensor as the same bytes each time.
                return self._feed(value.numpy(force=True))
            reduce = dispatch_table.get(type(value))
            reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:  # a lock, an open connection or another object without a readable state
            raise _Unknown from None
        if isinstance(reduced, str):  # the name of a global in its module
            return self._say("name", reduced)
        return self._feed_all("kept", (list(p) if isinstance(p, Iterator) else p for p in reduced))

    def _feed_module(self, module: ModuleType) -> None:
        self._say("module", module.__name__)
        if _installed(module.__name__) or module.__name__ == "__main__":
            return self._say("package", _package(module.__name__))
        file = Path(module.__file__ or "")
        files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
        if len(files) > MOST_FILES or not all(each.is_file() for each in files):
            raise _Unknown
        return self._feed_all("sources", (each.read_bytes() for each in files))


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numpy")


def _compiled_or_cached(value: Any) -> Any:
    """The function that numba compiled or functools cached; None for a decorator with a state of its own."""
    if not _installed(type(value).__module__):
        return None
    return getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)


def _names(code: CodeType) -> set[str]:
    """The names and attributes that a function and its inner functions may look up."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


@functools.cache
def _installed(module: str) -> bool:
    """Whether the module is part of Python or of an installed package, so that its version identifies it."""
    found = sys.modules.get(module)
    if module == "builtins" or found is None:
        return module == "builtins"
    file = getattr(found, "__file__", None)
    if file is None:  # built into Python, or typed at a prompt
        return module != "__main__"
    return any(Path(file).resolve().is_relative_to(folder) for folder in INSTALLED)


@functools.cache
def _package(module: str) -> str:
    top = module.partition(".")[0]
    try:
        return f"{top} {version(top)}"
    except PackageNotFoundError:
        return top

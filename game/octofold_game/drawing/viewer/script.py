"""Combines JavaScript modules into one script, because a page opened from a file cannot load modules."""

import posixpath
import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "(\.[\w./]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)
_UNSUPPORTED = re.compile(r"^(?:import|export)\b|\bimport[(.]", re.MULTILINE)


def bundle(modules: Mapping[str, str], entry: str) -> str:
    """Combine the module `entry` and all modules that it needs into one script.

    A module becomes a function that returns its exports. Comments on their own lines are removed.

    Args:
        modules: the text of each module, by its path.
        entry: the path of the module to run.

    Raises:
        ValueError: a module has an import or export of an unsupported form, or modules import each other in a
            cycle.
    """
    texts: dict[str, str] = {}
    _add(modules, entry, texts, ())
    for name, text in texts.items():
        if found := _UNSUPPORTED.search(text):
            raise ValueError(f"{name}: {found[0]!r} is an import or export of an unsupported form")
    return "".join(['(() => {\n"use strict";\n', *texts.values(), "})();\n"])


def _add(modules: Mapping[str, str], name: str, done: dict[str, str], users: tuple[str, ...]) -> None:
    """Add module `name`, rewritten as a function, to `done`, after the modules that it needs."""
    if name in users:
        raise ValueError(f"{name} imports itself through {', '.join(users)}")
    if name in done:
        return
    text = _COMMENT.sub("", modules[name])
    imports = [(names, _path(name, needed)) for names, needed in _IMPORT.findall(text)]
    for _, needed in imports:
        _add(modules, needed, done, (*users, name))
    exported = _EXPORT.findall(text)
    body = _EXPORT.sub("", _IMPORT.sub("", text))
    taken = "".join(_take(names, needed) for names, needed in imports)
    done[name] = (
        f"const {_variable(name)} = (() => {{\n{taken}{body}return {{ {', '.join(exported)} }};\n}})();\n"
    )


def _path(user: str, address: str) -> str:
    """Return the path of the module that module `user` imports as `address`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(user), address))


def _variable(name: str) -> str:
    return "of_" + re.sub(r"\W", "_", name.removesuffix(".js"))


def _take(names: str, needed: str) -> str:
    return f"const {{ {names} }} = {_variable(needed)};\n"

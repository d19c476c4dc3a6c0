"""Puts modules of JavaScript into one script: a page that is opened from a file cannot load modules."""

import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?:/\*\*.*?\*/|//.*?)\n", re.MULTILINE | re.DOTALL)
_LEFT = re.compile(r"^(?:import|export)\b|\bimport[(.]", re.MULTILINE)


def in_one(modules: Mapping[str, str], entry: str) -> str:
    """The module `entry` of these, by name, with all that it imports, as a script for any browser.

    A module becomes a function that returns what the module exports. Comments on lines of their own are left
    out.

    Raises:
        ValueError: a module imports or exports in an unknown form, or imports itself by way of others.
    """
    done: dict[str, str] = {}
    _add(modules, entry, done, ())
    return "".join(['(() => {\n"use strict";\n', *done.values(), "})();\n"])


def _add(modules: Mapping[str, str], name: str, done: dict[str, str], users: tuple[str, ...]) -> None:
    if name in users:
        raise ValueError(f"{name}.js imports itself, by {', '.join(users)}")
    if name in done:
        return
    text = _COMMENT.sub("", modules[f"{name}.js"])
    imports = _IMPORT.findall(text)
    for _, needed in imports:
        _add(modules, needed, done, (*users, name))
    exported = _EXPORT.findall(text)
    body = _EXPORT.sub("", _IMPORT.sub("", text))
    if found := _LEFT.search(body):
        raise ValueError(f"{name}.js: {found[0]!r} is of a form that one script cannot have")
    taken = "".join(f"const {{ {names} }} = of_{needed};\n" for names, needed in imports)
    done[name] = f"const of_{name} = (() => {{\n{taken}{body}return {{ {', '.join(exported)} }};\n}})();\n"

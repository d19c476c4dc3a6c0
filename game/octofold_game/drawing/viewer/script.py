"""Puts modules of JavaScript into one file: each that a browser asks for takes its time on a phone.

A page that is opened from a file cannot load modules at all. So the HTML report has its modules in a script.
"""

import posixpath
import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "(\.[\w./]+)";\n', re.MULTILINE)
_LATER = re.compile(r'\bimport\("(\.[\w./]+)"\)')
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)
_LEFT = re.compile(r"^(?:import|export)\b|\bimport[(.]", re.MULTILINE)


def in_one(modules: Mapping[str, str], entry: str) -> str:
    """The module `entry` and all its imports as one script for any browser.

    A module becomes a function that returns what the module exports. Comments on lines of their own are left
    out.

    Raises:
        ValueError: a module imports or exports in an unknown form, or imports itself by way of others.
    """
    texts = _texts(modules, entry)
    for name, text in texts.items():
        if found := _LEFT.search(text):
            raise ValueError(f"{name}: {found[0]!r} is of a form that one script cannot have")
    return "".join(['(() => {\n"use strict";\n', *texts.values(), "})();\n"])


def with_dependencies(modules: Mapping[str, str], entry: str) -> dict[str, str]:
    """The modules without those that `entry` imports: it contains them, and the others take them from it.

    What is imported later, by `import(...)`, stays a module of its own.

    Raises:
        ValueError: as for `in_one`.
    """
    texts = {name: _moved(text, name, entry) for name, text in _texts(modules, entry).items()}
    for name, text in texts.items():
        if found := _LEFT.search(_LATER.sub("", text)):
            raise ValueError(f"{name}: {found[0]!r} is of a form that one module cannot have")
    others = {name: _without(text, name, texts, entry) for name, text in modules.items() if name not in texts}
    exported = ", ".join(_variable(name) for name in texts)
    return {**others, entry: "".join([*texts.values(), f"export {{ {exported} }};\n"])}


def _moved(text: str, name: str, entry: str) -> str:
    """What is in `entry` now imports from there."""
    return _LATER.sub(lambda found: f'import("{_way(entry, _path(name, found[1]))}")', text)


def _without(text: str, name: str, contained: Mapping[str, str], entry: str) -> str:
    """A module that imports from `entry`."""

    def taken(found: re.Match[str]) -> str:
        needed = _path(name, found[2])
        if needed not in contained:
            return found[0]
        way = _way(name, entry)
        return f'import {{ {_variable(needed)} }} from "{way}";\n{_take(found[1], needed)}'

    return _IMPORT.sub(taken, text)


def _texts(modules: Mapping[str, str], entry: str) -> dict[str, str]:
    """The rewritten module and its dependencies, in an order in which they can run."""
    done: dict[str, str] = {}
    _add(modules, entry, done, ())
    return done


def _add(modules: Mapping[str, str], name: str, done: dict[str, str], users: tuple[str, ...]) -> None:
    if name in users:
        raise ValueError(f"{name} imports itself, by {', '.join(users)}")
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
    """The file that a module imports."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(user), address))


def _way(user: str, file: str) -> str:
    """The address by which a module imports a file."""
    way = posixpath.relpath(file, posixpath.dirname(user) or ".")
    return way if way.startswith(".") else f"./{way}"


def _variable(name: str) -> str:
    return "of_" + re.sub(r"\W", "_", name.removesuffix(".js"))


def _take(names: str, needed: str) -> str:
    return f"const {{ {names} }} = {_variable(needed)};\n"

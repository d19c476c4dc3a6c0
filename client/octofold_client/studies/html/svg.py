"""Makes matplotlib's SVG a part of a page: its text has the page's font, and black is the page's own color.

The page's Content-Security-Policy forbids styles in attributes, so each property becomes an attribute of its
own, which SVG allows.
"""

import re
from xml.etree import ElementTree as ET

from octofold_game.drawing.palette import INK

from octofold_client.studies.html.elements import make

_PROPERTIES = {
    *("fill", "fill-opacity", "fill-rule", "opacity", "stroke", "stroke-dasharray", "stroke-dashoffset"),
    *("stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "stroke-opacity", "stroke-width"),
    *("text-anchor", "font-size", "font-weight"),
}
_NUMBER = re.compile(r"-?\d+\.\d+")
_FONT = re.compile(r"(?P<size>[\d.]+px)")
_ID = re.compile(r"url\(#([\w-]+)\)")
_LINK = "{http://www.w3.org/1999/xlink}href"


def picture(svg: bytes, name: str, description: str) -> ET.Element:
    """The picture as an element; `name` keeps its ids apart from those of other pictures in the page."""
    root = ET.fromstring(svg)
    used = _used_ids(root)
    element = _converted(root, name, used)
    element.attrib = {
        "class": "picture",
        "viewBox": root.get("viewBox", ""),
        "role": "img",
        "aria-label": description,
    }
    return element


def _used_ids(root: ET.Element) -> set[str]:
    used = set()
    for element in root.iter():
        for attribute, value in element.attrib.items():
            used |= set(_ID.findall(value))
            if attribute == _LINK:
                used.add(value.removeprefix("#"))
    return used


def _converted(source: ET.Element, name: str, used: set[str]) -> ET.Element:
    element = make(_plain(source.tag))
    for attribute, value in source.attrib.items():
        if attribute == "style":
            for property_, setting in _settings(value):
                element.set(property_, _renamed(setting, name))
        elif attribute == "id":
            if value in used:
                element.set("id", f"{name}-{value}")
        elif attribute == _LINK:
            element.set("href", f"#{name}-{value.removeprefix('#')}")
        elif attribute == "d":
            element.set("d", _NUMBER.sub(_rounded, " ".join(value.split())))
        elif not attribute.startswith("{"):
            element.set(attribute, _renamed(value, name))
    element.text, element.tail = _kept(source.text), _kept(source.tail)
    for child in source:
        # The page has one style for all pictures.
        if _plain(child.tag) not in ("metadata", "style"):
            element.append(_converted(child, name, used))
    return element


def _rounded(number: re.Match[str]) -> str:
    # A hundredth of a point is finer than any screen.
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _plain(tag: object) -> str:
    return tag.rpartition("}")[2] if isinstance(tag, str) else "g"  # a comment


def _kept(text: str | None) -> str | None:
    return text if text and text.strip() else None


def _settings(style: str) -> list[tuple[str, str]]:
    found = []
    for declaration in style.split(";"):
        property_, _, setting = (part.strip() for part in declaration.partition(":"))
        if property_ == "font":
            if size := _FONT.search(setting):
                found.append(("font-size", size["size"]))
            if re.search(r"\b(bold|700)\b", setting):
                found.append(("font-weight", "bold"))
        elif property_ in _PROPERTIES:
            found.append((property_, setting))
    return found


def _renamed(value: str, name: str) -> str:
    if value.lower() == INK:
        return "currentColor"
    return _ID.sub(rf"url(#{name}-\1)", value)

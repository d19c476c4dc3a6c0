"""Elements of HTML. Text becomes text and never markup, whatever the name of a model contains."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

Child = ET.Element | str

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that no HTML file may contain."""


def make(tag: str, *children: Child | None, **attributes: str | bool | None) -> ET.Element:
    """An element; `tag` may have classes, such as "div.wide". None is left out, True is an empty attribute.

    An underscore at the end of an attribute's name is dropped, and others become hyphens.
    """
    name, *classes = tag.split(".")
    element = ET.Element(name)
    if classes:
        element.set("class", " ".join(classes))
    for attribute, value in attributes.items():
        if value is not None and value is not False:
            element.set(attribute.rstrip("_").replace("_", "-"), "" if value is True else visible(str(value)))
    last: ET.Element | None = None
    for child in children:
        if isinstance(child, ET.Element):
            element.append(child)
            last = child
        elif child is not None and last is None:
            element.text = (element.text or "") + visible(child)
        elif child is not None and last is not None:
            last.tail = (last.tail or "") + visible(child)
    return element


def visible(text: str) -> str:
    """The text, with a mark in place of each character that HTML forbids."""
    return _FORBIDDEN.sub("\ufffd", text)


def raw(tag: str, content: str) -> ET.Element:
    """A `style` or `script` element, whose content is not escaped.

    Raises:
        ValueError: the content would end the element.
    """
    if "</" in content or "<!--" in content:
        raise ValueError(f"the content of <{tag}> may contain neither </ nor <!--")
    element = ET.Element(tag)
    element.text = content
    return element


def table(rows: Sequence[Sequence[Child]], caption: str = "") -> ET.Element:
    """A table whose first row and first column are headings; it scrolls sideways where it is too wide."""
    head, *body = rows
    element = make("table", make("caption", caption) if caption else None)
    element.append(make("thead", make("tr", *(_cell(cell, scope="col") for cell in head))))
    element.append(
        make(
            "tbody",
            *(
                make("tr", _cell(first, scope="row"), *(make("td", cell) for cell in others))
                for first, *others in body
            ),
        )
    )
    # Something that scrolls must be reachable by keyboard.
    return make("div.scrolls", element, tabindex="0", role="region", aria_label=caption or "Table")


def _cell(content: Child, *, scope: str) -> ET.Element:
    return make("th", content, scope=scope) if content != "" else make("td")


def facts(rows: Sequence[tuple[str, Child]]) -> ET.Element:
    """A list of names and what they are; rows without content are left out."""
    element = make("dl.facts")
    for name, content in rows:
        if content != "":
            element.append(make("div", make("dt", name), make("dd", content)))
    return element


def named_with_chip(tag: str, name: str, index: int) -> ET.Element:
    """A name with the color of result `index` before it."""
    return make(tag, make(f"span.chip.series-{index}"), name)


def html(head: ET.Element, body: ET.Element) -> str:
    """The text of a page."""
    page = make("html", head, body, lang="en")
    return "<!doctype html>\n" + ET.tostring(page, encoding="unicode", method="html") + "\n"

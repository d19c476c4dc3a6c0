"""Makes HTML elements. Text is escaped, so that the name of a model cannot add markup."""

import base64
import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

Child = ET.Element | str

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML does not allow."""


def make(tag: str, *children: Child | None, **attributes: str | bool | None) -> ET.Element:
    """Make an element. `tag` may include classes, such as "div.wide".

    An attribute that is None or False is left out; True makes an empty attribute. In the names of attributes,
    an underscore at the end is dropped, and other underscores become hyphens.
    """
    name, *classes = tag.split(".")
    element = ET.Element(name)
    if classes:
        element.set("class", " ".join(classes))
    for attribute, value in attributes.items():
        if value is not None and value is not False:
            element.set(
                attribute.rstrip("_").replace("_", "-"),
                "" if value is True else valid_text(str(value)),
            )
    last: ET.Element | None = None
    for child in children:
        if isinstance(child, ET.Element):
            element.append(child)
            last = child
        elif child is not None and last is None:
            element.text = (element.text or "") + valid_text(child)
        elif child is not None and last is not None:
            last.tail = (last.tail or "") + valid_text(child)
    return element


def valid_text(text: str) -> str:
    """Return the text with U+FFFD in place of each character that HTML does not allow."""
    return _FORBIDDEN.sub("\ufffd", text)


def raw(tag: str, content: str) -> ET.Element:
    """Make a `style` or `script` element, whose content is not escaped.

    Raises:
        ValueError: the content contains `</` or `<!--`.
    """
    if "</" in content or "<!--" in content:
        raise ValueError(f"the content of <{tag}> may contain neither </ nor <!--")
    element = ET.Element(tag)
    element.text = content
    return element


def table(rows: Sequence[Sequence[Child]], caption: str) -> ET.Element:
    """Make a table whose first row and first column are headings. A wide table scrolls sideways."""
    head, *body = rows
    columns = (_heading(cell, scope="col") for cell in head)
    lines = []
    for first, *others in body:
        lines.append(make("tr", _heading(first, scope="row"), *(make("td", each) for each in others)))
    element = make(
        "table", make("caption", caption), make("thead", make("tr", *columns)), make("tbody", *lines)
    )
    # With a tabindex, the element can be scrolled by keyboard.
    return make("div.scrolls", element, tabindex="0", role="region", aria_label=caption)


def _heading(content: Child, *, scope: str) -> ET.Element:
    return make("th", content, scope=scope) if content != "" else make("td")


def facts(rows: Sequence[tuple[str, Child]]) -> ET.Element:
    """Make a list of names and values. Rows with an empty value are left out."""
    given = ((name, content) for name, content in rows if content != "")
    return make("dl.facts", *(make("div", make("dt", name), make("dd", content)) for name, content in given))


def picture(svg: bytes, title: str, text: str) -> ET.Element:
    """Make a figure: an SVG document with its title above and an explanation below."""
    data = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    image = make("img.picture", src=data, alt=f"{title}. {text}")
    return make("figure", make("h3", title), image, make("figcaption.note", text))


def html(head: ET.Element, body: ET.Element) -> str:
    """Return an HTML page as text."""
    page = make("html", head, body, lang="en")
    return "<!doctype html>\n" + ET.tostring(page, encoding="unicode", method="html") + "\n"

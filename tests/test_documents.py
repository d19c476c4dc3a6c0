"""Every file of this repository that a document mentions exists."""

import re
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    file.relative_to(ROOT).as_posix()
    for pattern in (
        *("*.md", "docs/*.md", "bench/*.md", "training/*.md", "papers/**/*.md"),
        *("models/*/*/*.md", "examples/**/*.md"),
    )
    for file in ROOT.glob(pattern)
)
FOLDERS = (
    *(".ci", "bench", "checkpoints", "client", "deploy", "docs", "examples", "export"),
    *("game", "models", "papers", "players", "proto", "server", "tests", "training"),
)
"""Folders of the repository. Other folders in documents, such as `results`, are written by commands."""

SOURCES = (".ipynb", ".proto", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml")
"""Endings of files in the repository. Commands write files with other endings."""

MADE_BY_COMMANDS = (
    *("checkpoints/first", "checkpoints/mine"),
    *("models/deep", "models/first", "models/lazyzero", "models/mine", "models/net", "models/teacher"),
    "examples/bring-your-own/network.onnx",
    "deploy/kubernetes/mine",  # by hand
)

FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
WORD = re.compile(r"[\w./*-]+:?")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b")


def links(text: str) -> set[str]:
    """Return the targets of a document's links, relative to its folder."""
    return {target for target in LINK.findall(FENCED.sub("", text)) if "://" not in target}


def mentions(text: str) -> set[str]:
    """Return the files of the repository that a document names in code."""
    code = [*FENCED.findall(text), *SPAN.findall(FENCED.sub("", text))]
    words = {word for piece in code for word in WORD.findall(piece)}
    # A word that ends in a colon is the area of a commit subject.
    return {word.rstrip(".") for word in words if not word.endswith(":") and _is_a_file(word.rstrip("."))}


def _is_a_file(word: str) -> bool:
    path = PurePosixPath(word)
    if word.startswith("/") or "results" in path.parts or word.startswith(MADE_BY_COMMANDS):
        return False
    folders = path.parts[:-1] if path.suffix else path.parts
    if PLACEHOLDER.search("/".join(folders)) or path.stem == "*":
        return False
    if PLACEHOLDER.fullmatch(path.stem) and path.suffix in SOURCES:  # FILE.toml
        return False
    return ("/" in word and path.parts[0] in FOLDERS) or path.suffix in SOURCES


def exists(path: str) -> bool:
    """Return whether a path or glob exists, from the root or as the end of a path in one of `FOLDERS`."""
    if any(ROOT.glob(path.rstrip("/"))):
        return True
    return any(any((ROOT / folder).rglob(path)) for folder in FOLDERS)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_a_document_mentions_exists(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    missing = {path for path in mentions(text) if not exists(path)}
    missing |= {path for path in links(text) if not (ROOT / document).parent.joinpath(path).exists()}
    assert missing == set()

"""Builds the page as a static site that plays without any server: `make page`.

The site is the page of `octofold-serve`, onnxruntime-web from npm, and the exported graphs as they are. A
worker of the browser runs them, and another one the search `expectimax`, which needs no download and so comes
first. Any web server can serve the folder; `file://` cannot, because browsers load no modules from there.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from importlib.metadata import version as installed_version
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from octofold_game.contract.graph import TEMPERATURE
from octofold_game.contract.model import DEFAULT_MODEL, Card, CardError, Precision, read_card
from octofold_game.drawing.viewer import viewer_files
from octofold_game.drawing.viewer.script import in_one, with_dependencies
from octofold_server.web.about import described
from octofold_server.web.files import INDEX, VIEWER

HERE = Path(__file__).parent
PACKAGE = HERE / "node_modules" / "onnxruntime-web" / "dist"
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
"""The files of onnxruntime-web without WebGPU and WebGL, which are slower for networks this small."""

PRECISIONS: tuple[Precision, ...] = ("int8", "fp32")
"""The first that a model has. int8 is faster in a browser, too: `bench/graph/page.py` measures it."""

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
)
"""As the server's, but for compiling WebAssembly."""

SEARCH, CUTOFF = "expectimax", 0.0001
"""The player whose moves `SEARCH_WORKER` makes, and an option that its card leaves out."""
LIST = "models.json"
MAIN = "page/js/main.js"
NEEDED = (MAIN, "page/js/ask/browser.js")
"""The modules of every visit."""
SEARCH_WORKER = "page/js/ask/expectimax_worker.js"
SHEET = "page/css/all.css"
"""All style sheets of the page. On a phone, each request takes its time."""
_SHEETS = re.compile(r' *<link rel="stylesheet" href="([^"]+)">\n')


class SiteError(Exception):
    """The site cannot be built; the message says why."""


def main() -> int:
    """Build the site; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("site"), help="folder of the site (default: site)")
    parser.add_argument("--models", type=Path, default=Path("models"), help="model repository")
    parser.add_argument("--name", action="append", help="a model to include (default: all that suit it)")
    parser.add_argument(
        "--max-megabytes", type=float, default=24, help="leave out models with larger graphs (default: 24)"
    )
    options = parser.parse_args()
    if not (PACKAGE / RUNTIME[0]).exists():
        print(f"onnxruntime-web is missing; run: npm ci --prefix {HERE}", file=sys.stderr)
        return 1
    try:
        build(options.out, options.models, options.name, options.max_megabytes)
    except (SiteError, CardError, OSError) as error:
        print(f"build_page: {error}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file())
    print(f"{options.out}: {size / 1e6:.0f} MB; try it: python3 -m http.server --directory {options.out}")
    return 0


def build(out: Path, repository: Path, names: list[str] | None, max_megabytes: float) -> None:
    """Write the site to `out`, in place of one that is there.

    Raises:
        SiteError: `out` holds other things than a site, or no model is left for the site.
        CardError: the card of a model is missing or wrong.
        OSError: a file cannot be read or written.
    """
    models = _newest(repository, names, max_megabytes)
    if out.exists():
        if not (out / "page" / "js").is_dir() and any(out.iterdir()):
            raise SiteError(f"{out} holds other files than a site; name another folder")
        shutil.rmtree(out)
    with as_file(files("octofold_server.web") / "static") as static:
        shutil.copytree(static, out / "page", ignore=shutil.ignore_patterns("js", "css", INDEX))
        index = (static / INDEX).read_text()
        texts = {f"page/{file.relative_to(static)}": file.read_text() for file in static.rglob("*.[jc]s*")}
    texts |= {f"page/{VIEWER}{name}": text for name, text in viewer_files().items()}
    scripts = {name: text for name, text in texts.items() if name.endswith(".js")}
    # A worker has no document, so it must not take what it needs from the page's module.
    modules = with_dependencies(scripts, MAIN) | {SEARCH_WORKER: in_one(scripts, SEARCH_WORKER)}
    for name, text in {**modules, SHEET: "".join(texts[name] for name in _SHEETS.findall(index))}.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    (out / "page" / "ort").mkdir()
    for name in RUNTIME:
        shutil.copy(PACKAGE / name, out / "page" / "ort" / name)
    names_of = [card.name for _, card, _ in models]
    # A network needs megabytes, the search does not.
    default = next((name for name in (SEARCH, DEFAULT_MODEL) if name in names_of), names_of[0])
    about = {
        "version": installed_version("octofold"),
        "models": [_add(out, *each, is_default=each[1].name == default) for each in models],
    }
    (out / LIST).write_text(json.dumps(about, indent=1) + "\n")
    head = "\n    ".join(
        [
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            f'<meta name="octofold-models" content="{LIST}">',
            f'<link rel="stylesheet" href="{SHEET}">',
            # A browser would learn of each of these only from the one before. On a phone, every wait is long.
            f'<link rel="preload" href="{LIST}" as="fetch" crossorigin>',
            *(f'<link rel="modulepreload" href="{file}">' for file in NEEDED),
        ]
    )
    (out / INDEX).write_text(_SHEETS.sub("", index).replace('<meta charset="utf-8">', head, 1))


def _newest(
    repository: Path, names: list[str] | None, max_megabytes: float
) -> list[tuple[Path, Card, Precision | None]]:
    """The newest version of each model, with the precision for a browser, or None for a player."""
    if missing := sorted(name for name in names or () if not (repository / name).is_dir()):
        raise SiteError(f"{repository} has no model {missing[0]}")
    found: list[tuple[Path, Card, Precision | None]] = []
    for folder in sorted(repository.iterdir()):
        versions = [path for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
        if not versions or (names and folder.name not in names):
            continue
        newest = max(versions, key=lambda path: int(path.name))
        card = read_card(newest)
        if card.player is not None:
            if card.player.kind == SEARCH and card.player.options.keys() == {"depth"}:
                found.append((newest, card, None))
            else:
                print(f"{card.name} is left out: a page without a server has no such player")
            continue
        if card.compact_tables is not None and not names:
            print(f"{card.name} is left out: its tables take gigabytes when a browser unpacks them")
            continue
        precision = next(each for each in PRECISIONS if each in card.precisions)
        graph = card.precisions[precision]
        if graph.tensors or (newest / graph.file).stat().st_size > max_megabytes * 1e6:
            print(f"{card.name} is left out: its graph is too large for a page")
            continue
        found.append((newest, card, precision))
    if not found:
        raise SiteError(f"{repository} has no model for a page")
    return found


def _add(
    out: Path, folder: Path, card: Card, precision: Precision | None, *, is_default: bool
) -> dict[str, Any]:
    """Copy the graph of a version, and describe it as the server's `/page/about` does."""
    if precision is None:
        assert card.player is not None
        about = described(card, "", is_default=is_default, has_views=False)
        search = {"depth": card.player.options["depth"], "cutoff": CUTOFF}
        return {**about, "search": search}
    target = out / "models" / card.name / str(card.version)
    target.mkdir(parents=True)
    file = card.precisions[precision].file
    shutil.copy(folder / file, target / file)
    return {
        **described(card, precision, is_default=is_default, has_views=True),
        "views_temperature": card.temperature or TEMPERATURE,
        "file": f"models/{card.name}/{card.version}/{file}",
    }


if __name__ == "__main__":
    sys.exit(main())

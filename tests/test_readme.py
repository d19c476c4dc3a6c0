"""The commands of README.md work in their order on a fresh clone."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from octofold_game.contract.model import DEFAULT_MODEL, read_card
from support.shipped import CARDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALLER = {
    "make play ": "make play GAMES=1 MODEL=swift ",
    "--games 20": "--games 2",
    "first.toml": "first.toml --minutes 0.2",
}
"""Replacements that make slow commands shorter."""
ENVIRONMENT = Path(sys.executable).parent


def program() -> str:
    """Return the code blocks of the README, in order, as a bash script."""
    lines = ["set -ex"]
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        lines.append(block if language == "sh" else f"python - << 'EOF'\n{block}EOF")
    text = "\n".join(lines)
    for long, short in SMALLER.items():
        assert long in text
        text = text.replace(long, short)
    return text


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone that uses the environment of this test."""
    folder = tmp_path / "octofold"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True, timeout=60)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(ENVIRONMENT)
    for step in ("compiled", "light", "dev"):  # marks of make for finished steps
        (folder / ".venv" / step).touch()
    return folder


def network_of_its_own() -> list[str]:
    """Return a command prefix that gives a program its own network, with free ports, if the system allows
    it."""
    start = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if not (shutil.which("unshare") and shutil.which("ip")):
        return []
    tried = subprocess.run([*start, "true"], capture_output=True, check=False, timeout=60)
    return [] if tried.returncode else start


@pytest.mark.long
@pytest.mark.timeout(1800)  # from an empty clone: sets up, trains, exports and plays
def test_every_command_of_the_readme_works_in_order_on_a_fresh_clone(clone: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment.pop("VIRTUAL_ENV", None)
    command = [*network_of_its_own(), "bash", "-c", program()]
    with (tmp_path / "log").open("w+", encoding="utf-8") as log:
        page = subprocess.Popen(
            command, cwd=clone, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = page.wait()
        finally:
            os.killpg(page.pid, signal.SIGKILL)  # the server of `make serve &`
        log.seek(0)
        said = log.read()
    assert code == 0, said[-4000:]
    for made in ("results/swift/result.json", "models/mine/1/card.json", "models/first/1/card.json"):
        assert (clone / made).is_file()


def test_the_default_model_is_the_strongest_network_and_the_same_everywhere() -> None:
    cards = [card for file in CARDS if (card := read_card(file.parent)).player is None]
    card = max(cards, key=lambda card: 0 if card.strength is None else card.strength.average)
    of_make = re.search(r"^MODEL \?= (\w+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    of_image = re.search(r"OCTOFOLD_DEFAULT_MODEL=(\w+)", (ROOT / "Dockerfile").read_text())
    assert of_make is not None
    assert of_image is not None
    assert (of_make[1], of_image[1], DEFAULT_MODEL) == (card.name,) * 3


def test_the_page_can_be_read_in_a_few_minutes() -> None:
    assert len(README.encode()) < 9_000

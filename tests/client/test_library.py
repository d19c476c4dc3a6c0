"""The examples of docs/library.md work, and programs and notebooks can evaluate."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client import BrokenAnswer, EvaluationError, evaluate
from octofold_game.replays import check_replays
from support.players import FirstLegal

DOCUMENT = Path(__file__).parents[2] / "docs" / "library.md"
ADDRESS = "127.0.0.1:50051"


def test_every_example_of_the_document_runs(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text()
    names: dict[str, Any] = {}
    examples = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert len(examples) == 9
    for example in examples:
        line = text[: example.start()].count("\n") + 1
        code = "\n" * line + example[1].replace(ADDRESS, target)  # for tracebacks with its line numbers
        exec(compile(code, str(DOCUMENT), "exec"), names)
    assert names["answer"].model == "small"
    assert names["answers"].probabilities.shape == (1000, 4)
    assert names["moves"] == names["answers"].moves[:100].tolist()
    assert len(names["result"].games) == len(names["corner"].games) == 20
    assert (tmp_path / "tiles.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert re.search(r"\d+ points in \d+ moves", said)
    assert "supports tiles up to 32768" in said


def test_a_player_in_this_process_is_evaluated_on_the_games_of_the_seed(tmp_path: Path) -> None:
    result = evaluate(FirstLegal(), tmp_path / "games", games=12, seed=5, parallel=4)
    episodes = [episode for episode, error in check_replays(result.folder.replays) if error is None]
    assert {(e.game, e.score, e.largest_tile) for e in episodes} == {
        (game.game, game.score, game.largest_tile) for game in result.games
    }
    assert result.summary.games == 12
    assert result._repr_markdown_().startswith("**first legal: 12 games, seed 5**\n")
    assert "average score" in str(result)


@pytest.mark.parametrize(
    ("player", "message"),
    [
        (FirstLegal, r"the player must be an instance, got the class FirstLegal: use FirstLegal\(\)"),
        (type("Mute", (), {"name": "mute"})(), "Mute is not a player: it has no method"),
    ],
)
def test_an_object_that_is_not_a_player_is_refused_in_one_sentence(
    player: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(EvaluationError, match=message):
        evaluate(player, tmp_path, games=1)


@pytest.mark.parametrize(
    ("player", "seed", "message"),
    [
        (FirstLegal(), -1, r"seed must be from 0 to 2\*\*64 - 1, got -1"),
        (FirstLegal(), 2**64, r"seed must be from 0 to 2\*\*64 - 1, got 18446744073709551616"),
        ([], 0, "player must be a local player or at least one address of a server"),
    ],
)
def test_an_invalid_argument_is_named_before_the_folder_is_made(
    player: Any, seed: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(EvaluationError, match=message):
        evaluate(player, tmp_path / "games", games=1, seed=seed)
    assert not (tmp_path / "games").exists()


@pytest.mark.parametrize("answer", [None, 0, np.zeros((1, 4), np.int8)])
def test_a_player_that_does_not_answer_with_moves_is_named(answer: Any, tmp_path: Path) -> None:
    class Mistaken(FirstLegal):
        name = "mistaken"

        def next_moves(self, boards: NDArray[np.uint8]) -> Any:  # noqa: ARG002
            return answer

    with pytest.raises(BrokenAnswer, match=r"next_moves of mistaken must return an array of 1 move, got "):
        evaluate(Mistaken(), tmp_path, games=1)


NOTEBOOK = """
import sys
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

class ZMQInteractiveShell(InteractiveShell):  # as a notebook's is called
    def enable_gui(self, gui=None):
        pass

shell = ZMQInteractiveShell.instance()
shell.display_pub = CapturingDisplayPublisher()
for cell in (
    "%matplotlib inline",
    "from octofold_client import evaluate",
    f"result = evaluate({sys.argv[1]!r}, {sys.argv[2]!r}, games=3)",
    "table, _ = get_ipython().display_formatter.format(result)",
    "picture, _ = get_ipython().display_formatter.format(result.figures()['tiles-reached'])",
):
    shell.run_cell(cell).raise_error()
shown = shell.display_pub.outputs
print(len({output["transient"]["display_id"] for output in shown}), [o.get("update") for o in shown][:2])
print(shown[-1]["data"]["text/html"])
print(sorted(shell.user_ns["table"]), sorted(shell.user_ns["picture"]))
"""


def test_a_notebook_shows_a_bar_a_table_and_pictures(target: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, target, str(tmp_path / "games")],
        env={**os.environ, "IPYTHONDIR": str(tmp_path / "ipython")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts, html, formats = done.stdout.splitlines()
    assert counts == "1 [False, True]"  # one output, redrawn in place
    assert '<progress value="3" max="3"' in html
    assert formats == "['text/markdown', 'text/plain'] ['image/png', 'text/plain']"

"""The games of a report: replay files in attributes, buttons, and where `static/report.js` shows a game."""

import base64
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from octofold_game.episodes import Episode
from octofold_game.replays import FILE_HEADER, record_of
from octofold_game.rules import MOVE_NAMES

from octofold_client.contenders.judges import PROBABILITY
from octofold_client.studies.endings import CostlyMove, JudgeName
from octofold_client.studies.html.elements import make
from octofold_client.studies.html.results import COSTLY_MOVES, EvaluationPart

KEYS = (("←", "→"), "one move"), (("page up", "page down"), "10 moves"), (("home", "end"), "start and end")


def games_section(parts: list[EvaluationPart]) -> ET.Element:
    """The worst and the best games of every result, and the board."""
    return make(
        "section",
        make("h2", "The worst and the best games"),
        make("noscript", make("p.note", "The games need JavaScript; everything else on this page does not.")),
        make(
            "div.columns",
            make(
                "div",
                make("p.title", id="viewer-title", aria_live="polite"),
                make("div", id="stage"),
                make("p.note.keys", *_keys()),
            ),
            make(
                "div.right",
                make("div", id="curve"),
                make(
                    "div.games", *(_games_of(part, index, len(parts) > 1) for index, part in enumerate(parts))
                ),
            ),
            id="viewer",
            hidden=True,
        ),
        id="games",
    )


def _games_of(part: EvaluationPart, index: int, named: bool) -> ET.Element:
    games = {episode.game: episode for episode in (*part.games.worst, *part.games.best, *part.games.others)}
    replay = FILE_HEADER + b"".join(map(record_of, games.values()))
    box = make(
        "div.games-of",
        make("h3", make(f"span.chip.series-{index % 8}"), part.name) if named else None,
        data_part=f"{index}",
        data_replay=base64.b64encode(replay).decode(),
    )
    shown: set[int] = set()
    for title, episodes in (
        ("Worst", part.games.worst),
        ("Best", part.games.best),
        ("With costly moves", part.games.others),
    ):
        fresh = [episode for episode in episodes if episode.game not in shown]
        shown |= {episode.game for episode in fresh}
        if fresh:
            buttons = (make("li", _button(episode, index, part.name)) for episode in fresh)
            box.append(make("div", make("p.kind", title), make("ul", *buttons)))
    return box


def _button(episode: Episode, index: int, name: str) -> ET.Element:
    return make(
        "button.game",
        make("strong", f"{episode.score:,}"),
        make("span", f"{episode.largest_tile}", class_=f"tile-chip t{int(episode.final_board.max())}"),
        make("span.note", f"game {episode.game}, {len(episode):,} moves"),
        type="button",
        id=game_id(index, episode.game),
        aria_pressed="false",
        data_title=f"{name}, game {episode.game}",
    )


def game_id(part: int, game: int) -> str:
    """The id of a game's button."""
    return f"game-{part}-{game}"


def _keys() -> Iterable[ET.Element | str]:
    for keys, effect in KEYS:
        yield from (make("kbd", key) for key in keys)
        yield f" {effect}, "
    yield make("kbd", "space")
    yield " play or pause."


def costly_moves(part: EvaluationPart, index: int, judge: JudgeName) -> ET.Element:
    """The costliest moves of an analysis, each as a small board with a way into its game."""
    assert part.analysis is not None
    included = {episode.game for episode in (*part.games.worst, *part.games.best, *part.games.others)}
    return make(
        "ul.costly-moves",
        *(
            _costly(move, index, judge, move.game in included)
            for move in part.analysis.costliest[:COSTLY_MOVES]
        ),
    )


def _costly(move: CostlyMove, index: int, judge: JudgeName, included: bool) -> ET.Element:
    worth = f"{move.cost:.1%}" if judge.unit == PROBABILITY else f"{move.cost:,.0f} {judge.unit}"
    named = f"Game {move.game}, move {move.move:,}"
    link = make(
        "button.link",
        named,
        type="button",
        data_game=game_id(index, move.game),
        data_move=f"{move.move}",
        data_better=f"{move.better}",
    )
    return make(
        "li",
        small_board(move.board),
        make(
            "p",
            link if included else named,
            f": the player moves {MOVE_NAMES[move.made]}, {judge.name} {MOVE_NAMES[move.better]}. "
            f"Cost: {worth}.",
        ),
    )


def small_board(board: list[int]) -> ET.Element:
    """A board that does not change."""
    tiles = [f"{1 << exponent}" if exponent else "" for exponent in board]
    rows = "; ".join(", ".join(tile or "empty" for tile in tiles[row : row + 4]) for row in range(0, 16, 4))
    cells = (
        # As the page does, 16k for 16384: small cells have no room for five digits.
        make("span", tile if len(tile) < 5 else f"{int(tile) >> 10}k", class_=f"small-cell t{exponent}")
        for exponent, tile in zip(board, tiles, strict=True)
    )
    return make("div.small-board", *cells, role="img", aria_label=f"Board: {rows}")

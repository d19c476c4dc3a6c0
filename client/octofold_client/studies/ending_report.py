"""The report of an analysis as Markdown: tables and the costliest positions."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from octofold_game.rules import MOVE_NAMES

from octofold_client.contenders.judges import PROBABILITY, Judge
from octofold_client.studies.endings import QUARTERS, Analysis, CostlyMove, Group
from octofold_client.wording import aligned


def analysis_report(
    analysis: Analysis,
    title: str,
    folder: Path,
    judge: Judge | None,
    costliest: int,
    judge_flags: Sequence[str] = (),
) -> str:
    """The report of an analysis of the results in `folder`, under `title`.

    `judge_flags` let `octofold replay` show what the judge thinks.
    """
    parts = [f"**{title}**", _endings(analysis)]
    if judge is not None:
        parts.append(_verdict(analysis, judge))
    judged = judge if analysis.verdicts.judged.any() else None
    parts.append(_groups("moves to the end", analysis.by_distance(), judged))
    parts.append(_groups("largest tile", analysis.by_stage(), judged))
    if judged is not None:
        replay = shlex.join(["octofold", "replay", str(folder), *judge_flags])
        parts += [_costly(move, replay, judged) for move in analysis.costliest(costliest)]
    return "\n\n".join(parts)


def _endings(analysis: Analysis) -> str:
    games = len(analysis.endings)
    rows = [
        (str(tile), f"{sum(counts):,}", f"{sum(counts) / games:.1%}", *map(str, counts))
        for tile, counts in analysis.endings_by_tile()
    ]
    table = aligned([("ended at", "games", "share", *QUARTERS), *rows])
    note = "The last columns group the games by the sum of the other tiles, as a share of the largest tile."
    return "\n".join([*table, "", note])


def _verdict(analysis: Analysis, judge: Judge) -> str:
    whole = analysis.whole()
    if whole.agreement is None or whole.agreement_interval is None:
        return f"{judge.name} judged none of the {whole.positions:,} positions."
    low, high = whole.agreement_interval
    said = (
        f"{judge.name} agrees with {whole.agreement:.1%} of the moves "
        f"(95% interval {100 * low:.1f} to {100 * high:.1f}%)."
    )
    if (cost := analysis.cost_of_a_game()) is not None:
        average, interval = cost
        said += f" The other moves cost {_worth(average, judge)} per game"
        if interval is not None:
            said += f", 95% interval {_number(interval[0], judge)} to {_number(interval[1], judge)}"
        said += "."
    if whole.judged < whole.positions:
        said += f" It judged {whole.judged:,} of {whole.positions:,} positions."
    return said


def _groups(heading: str, groups: Sequence[Group], judge: Judge | None) -> str:
    headings = [heading, "positions", "empty cells", "legal moves"]
    rows = [
        [group.label, f"{group.positions:,}", f"{group.empty_cells:.1f}", f"{group.choices:.1f}"]
        for group in groups
    ]
    if judge is not None:
        headings += ["agreement", "cost per move", "share of cost"]
        for row, group in zip(rows, groups, strict=True):
            row.append("" if group.agreement is None else f"{group.agreement:.1%}")
            row.append("" if group.cost is None else _number(group.cost, judge))
            row.append("" if group.cost_share is None else f"{group.cost_share:.1%}")
    return "\n".join(aligned([headings, *rows]))


def _costly(move: CostlyMove, replay: str, judge: Judge) -> str:
    tiles = [str(1 << exponent) if exponent else "." for exponent in move.board]
    values = ", ".join(
        f"{name} {_number(value, judge)}"
        for name, value in zip(MOVE_NAMES, move.values, strict=True)
        if value is not None
    )
    return "\n".join(
        [
            f"Game {move.game}, move {move.move:,}: the player moved {MOVE_NAMES[move.made]}, {judge.name} "
            f"moves {MOVE_NAMES[move.better]}; cost {_worth(move.cost, judge)} ({values}).",
            "",
            "```",
            *("".join(f"{tile:>7}" for tile in tiles[row : row + 4]) for row in range(0, 16, 4)),
            f"{replay} --game {move.game} --move {move.move}",
            "```",
        ]
    )


def _number(value: float, judge: Judge) -> str:
    if judge.unit == PROBABILITY:
        return f"{value:.1%}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


def _worth(value: float, judge: Judge) -> str:
    return f"{_number(value, judge)} {judge.unit}"

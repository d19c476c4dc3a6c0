"""`octofold compare`: compares two or more players on the same games.

`evaluation/contest.py` computes the figures, and `evaluation/sequential.py` decides when to stop.
"""

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from octofold_game.commands.options import Folder, Percentage, PercentageOrNone, argument, option
from octofold_game.commands.subcommands import Command
from octofold_game.contract.results import FIRST_GAMES, NO, RESULTS, UNDECIDED
from octofold_game.rules import LARGEST_EXPONENT
from rich.console import Console

from octofold_client.cli.game_flags import MOST_GAMES, GameFlags, folder_of, games_of, name_in_folder
from octofold_client.cli.html_report import HtmlFlag, write_html
from octofold_client.cli.judge_flags import LuckFlag, print_luck_progress
from octofold_client.cli.shared_flags import JsonFlag, PlayersFlag, name_and_version, print_json
from octofold_client.contenders.judges import Judge
from octofold_client.contenders.local_players import Contender, local_player
from octofold_client.errors import EvaluationError, OctofoldError, Unavailable, UnknownModel, UsageError
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.contest_report import JSON_FILE, REPORT_FILE, markdown, write_files
from octofold_client.evaluation.question import BETTER, EQUAL, NO_WORSE, Question
from octofold_client.evaluation.result_folder import Conditions, check_writable, existing
from octofold_client.evaluation.sequential import CAP_MULTIPLE, fewest_games, greatest_score, next_look
from octofold_client.evaluation.sides import Side, read_side, with_distinct_names
from octofold_client.evaluation_run import Games, Players
from octofold_client.rpc.local_server import LocalServer
from octofold_client.studies.html.parts import MOST_RESULTS
from octofold_client.terminal.markdown import print_markdown

_HTML_FILE = "comparison.html"
_MOST_SIDES = 50
_LONGEST_NAME = 100


@dataclass(kw_only=True)
class Options(JsonFlag, HtmlFlag, GameFlags, LuckFlag, PlayersFlag):
    """Options of `octofold compare`."""

    sides: list[str] = argument(
        "A B", "result folders, or models as NAME or NAME:VERSION; --player adds local players", words="*"
    )
    models: Folder | None = option(
        None,
        "start a server for this model repository on a free loopback port, instead of using --target; the "
        "default judge of --luck is also looked up here",
    )
    until_decided: bool = option(
        False,
        "play until the 95% interval of every difference excludes zero",
        heading="play until the comparison is decided\n"
        "The answer is wrong in at most 5% of the runs, even if you stop early. The options with a margin X% "
        "also accept two result folders; then no games are played.",
    )
    no_worse_than: Percentage | None = option(
        None,
        "play until B is shown to be at most X% worse than A, or to be more than X% worse",
        exclusive_group="margin",
    )
    equal_within: Percentage | None = option(
        None,
        "play until A and B are shown to be equal within X%, or one is shown to be worse by more than X%",
        exclusive_group="margin",
    )
    better_than: PercentageOrNone | None = option(
        None,
        "play until it is shown whether B is at least X% better than A; 0% asks whether B is better at all",
        exclusive_group="margin",
    )
    capped: bool = option(
        True,
        "compare plain averages (default: scores count up to a cap, four times the larger average of the "
        f"first {FIRST_GAMES} games; without the cap, rare giant scores would double the number of "
        "games that a comparison needs)",
        flag="--no-cap",
    )
    limit: int = option(10_000, "maximum number of games with --until-decided or a margin", 1, MOST_GAMES)


def compare(options: Options) -> int:
    """Compare result folders; or let models and local players play, and compare their games.

    Returns:
        The exit code: `NO` if the answer to the question is no, `UNDECIDED` if it is open, otherwise 0.

    Raises:
        EvaluationError: the sides cannot be compared.
        OctofoldError: a call to the server failed.
    """
    question = _question_of(options)
    _check(options, question)
    with ExitStack() as stack:
        values = options.values(stack, options.models)
        if options.sides and _means_folder(options.sides[0]):
            sides = [read_side(Path(side)).with_luck(values, print_luck_progress) for side in options.sides]
            names = [Path(side).resolve().name for side in options.sides]
            folder = options.out or RESULTS / _folder_name(names)
            check_writable(folder)
            contest = Contest.of(with_distinct_names(sides), question=question, capped=options.capped)
        else:
            contest, folder = _play(options, question, values)
        write_files(contest, folder)
        files = {"result": JSON_FILE, "report": REPORT_FILE}
        if options.html:
            files["page"] = _HTML_FILE
            results = [standing.side.folder for standing in contest.standings]
            write_html(folder / _HTML_FILE, results, contest, values)
    _show(contest, {kind: folder / name for kind, name in files.items()}, options.json)
    if question is None and not options.until_decided:
        return 0
    if not contest.decided:
        return UNDECIDED
    return NO if contest.answer is False else 0


def _check(options: Options, question: Question | None) -> None:
    """Raise an error if flags contradict each other, or if the model repository or matplotlib is missing."""
    sides = [*options.sides, *options.players]
    if not 2 <= len(sides) <= _MOST_SIDES:
        raise UsageError(
            f"there must be 2 to {_MOST_SIDES} sides, such as A B or A --player SPEC, got {len(sides)}"
        )
    if options.html and len(sides) > MOST_RESULTS:
        raise UsageError(f"--html shows at most {MOST_RESULTS} sides, got {len(sides)}")
    options.check_html()
    if question is not None and len(sides) > 2:
        raise UsageError(f"{question.flag} compares two sides, got {len(sides)}")
    folders = [Path(side) for side in options.sides if _means_folder(side)]
    if folders and len(folders) < len(sides):
        other = next(side for side in (*options.players, *options.sides) if not _means_folder(side))
        raise UsageError(
            f"cannot compare the result folder {existing(folders[0])} with {other}: give only result "
            "folders or only players"
        )
    for number, folder in enumerate(folders):
        if folder.resolve() in (other.resolve() for other in folders[:number]):
            raise UsageError(f"each folder must be given once, got {folder} twice")
    deciding = options.until_decided or question is not None
    if options.games is not None and deciding:
        raise UsageError("--games cannot be combined with --until-decided or a margin: use --limit")
    if deciding and not folders and options.capped and options.limit <= FIRST_GAMES:
        raise UsageError(
            f"--limit must be above {FIRST_GAMES}, got {options.limit}: the first {FIRST_GAMES} games only "
            "set the cap of the scores"
        )
    new = {"--until-decided": options.until_decided, "--models": options.models, "--games": options.games}
    new |= {"--seed": options.seed, "--watch": options.watch}
    if folders and (flag := next((name for name, given in new.items() if given), None)):
        raise UsageError(f"{flag} is for new games, so it needs players instead of result folders")
    if options.models:
        existing(options.models)


def _check_limit(options: Options, question: Question, first: Contender) -> None:
    """Print a warning if `--limit` games are too few for the answer yes, even if all scores are equal."""
    if question.kind == BETTER:  # equal players: the answer can only be no
        return
    share, games = 1 / CAP_MULTIPLE, FIRST_GAMES
    if not options.capped:
        card = first.version.card
        # The number of games follows from the average score of A, which is in its card.
        if card is None or card.strength is None:
            return
        share = card.strength.average / greatest_score(first.largest_exponent or LARGEST_EXPONENT)
        games = 0
    games += fewest_games(float(question.margin), share)
    if options.limit < games:
        print(
            f"--limit {options.limit:,} is too small: for equal players, a yes to {question.flag} takes at "
            f"least {games:,} games",
            file=sys.stderr,
        )


def _play(options: Options, question: Question | None, values: Judge | None) -> tuple[Contest, Path]:
    """Play the games. Return the comparison and the folder for its files."""
    games = replace(games_of(options), values=values)
    models = [name_and_version(side) for side in options.sides]
    with ExitStack() as stack:
        server = stack.enter_context(LocalServer(options.models)) if options.models and models else None
        try:
            local = [local_player(spec) for spec in options.players]
            if server:
                players = Players([server.target], models, local=local)
            else:
                credentials, patience = options.credentials(), options.patience or 0
                players = Players(options.targets, models, credentials, local, None, patience)
            stack.enter_context(players)
        except (Unavailable, UnknownModel) as error:
            raise EvaluationError(f"{error} (no folder is named {' or '.join(options.sides)})") from None
        _check_different(players)
        folder = options.out or RESULTS / _folder_name(
            [contender.title for contender in players.contenders], f"-seed{games.seed}"
        )
        check_writable(folder)
        if question is not None:
            _check_limit(options, question, players.contenders[0])
        try:
            return _play_until_decided(options, games, players, question), folder
        except OctofoldError:
            if server:
                server.check()  # if the server has ended, its log says more than the error of the call
            raise


def _check_different(players: Players) -> None:
    known = list[Conditions]()
    for contender in players.contenders:
        if (conditions := Conditions.of(contender, 0)) in known:
            both = "both sides are" if len(players.contenders) == 2 else "two sides are"
            raise UsageError(f"{both} the same player, {contender.title}")
        known.append(conditions)


def _play_until_decided(
    options: Options, games: Games, players: Players, question: Question | None
) -> Contest:
    folders = [folder_of(options, games, contender, alone=False) for contender in players.contenders]
    deciding = options.until_decided or question is not None
    number = next_look(0, options.limit) if deciding else games.number
    while True:
        sides = []
        for contender, folder in zip(players.contenders, folders, strict=True):
            played = players.play(contender, folder, replace(games, wanted=number))
            scores = {game.game: game.score for game in played.games}
            largest = contender.largest_exponent or LARGEST_EXPONENT
            side = Side(contender.title, played.conditions, folder.path, scores, played.completeness, largest)
            sides.append(side.with_luck(games.values, print_luck_progress))
        contest = Contest.of(
            with_distinct_names(sides), stopped=deciding, question=question, capped=options.capped
        )
        if not deciding or contest.decided or number == options.limit:
            return contest
        number = next_look(number, options.limit)


def _show(contest: Contest, files: Mapping[str, Path], as_json: bool) -> None:
    if as_json:
        print_json(contest.to_json() | {"files": {kind: str(file) for kind, file in files.items()}})
        return
    print_markdown(markdown(contest), Console())
    for kind, file in files.items():
        print(f"{kind + ':':<9}{file}", file=sys.stderr)


def _question_of(options: Options) -> Question | None:
    margins = {NO_WORSE: options.no_worse_than, EQUAL: options.equal_within, BETTER: options.better_than}
    return next((Question(margin, kind) for kind, margin in margins.items() if margin is not None), None)


def _means_folder(side: str) -> bool:
    """Return whether a side is a result folder (an existing folder, or a text with a slash), not a model."""
    return Path(side).is_dir() or os.sep in side


def _folder_name(names: Sequence[str], ending: str = "") -> str:
    """Return a folder name such as "compare-a-version-1-b-version-2-seed1", with a digest for long names."""
    name = "compare-" + "-".join(name_in_folder(name) for name in names) + ending
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:8]
    return f"compare-{len(names)}-players-{digest}{ending}"


COMMAND = Command(
    "compare",
    "compare players on the same games",
    "Compares two or more result folders, models or local players on the same games. Prints the average "
    "differences in score with 95% intervals, and for more than two players a league table. Writes "
    "comparison.json and comparison.md. With a margin, the exit code is 0 for yes, "
    f"{NO} for no and {UNDECIDED} for not decided; with --until-decided, it is 0 or {UNDECIDED}.",
    Options,
    compare,
    usage="octofold compare [A] [B ...] [--player SPEC ...] [options]",
    examples=("swift flagship", "swift flagship --no-worse-than 5%", "results/mine results/yours"),
)

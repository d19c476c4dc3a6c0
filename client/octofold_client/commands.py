"""What the subcommands of `octofold` do with their parsed options.

Results go to standard output, progress and remarks to standard error. Failures are raised; `cli.py` turns
them into one line and an exit code.
"""

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES
from rich.console import Console
from rich.text import Text

from octofold_client.answers import ModelVersion
from octofold_client.board_text import parse_board, parse_lines
from octofold_client.calls import RetryPolicy
from octofold_client.client import Client
from octofold_client.credentials import Credentials
from octofold_client.errors import DeadlinePassed, EvaluationError, FolderInUse, OctofoldError, Unavailable
from octofold_client.evaluation import Source
from octofold_client.evaluation import evaluate as run_evaluation
from octofold_client.interrupts import DeferredInterrupts
from octofold_client.local_players import LocalContender, local_player
from octofold_client.local_server import LocalServer
from octofold_client.local_source import LocalSource
from octofold_client.progress import progress_on
from octofold_client.report import print_report
from octofold_client.result_file import Evaluation
from octofold_client.results import Conditions, ResultFolder, check_writable, differences
from octofold_client.selection import Contender, Selected, select

RESULTS = Path("results")
BOARDS_A_CALL = 4096
READY_SECONDS = 3.0
PARALLEL, LOCAL_PARALLEL = 1024, 64
"""Games at a time. A server wants large batches; a slow local player should rather finish some games soon,
so that there is something to see.
"""


def move(options: Namespace) -> None:
    """Prints the move for the board on the command line, or a line of CSV for each on standard input."""
    one = parse_board(" ".join(options.board), tiles=options.tiles) if options.board else None
    selected = _select(options.target, options.model, options.version, credentials_of(options))
    with client_of(options.target, selected, credentials_of(options)) as client:
        if one is not None:
            answer = client.next_move(one)
            shares = zip(MOVE_NAMES, answer.probabilities.tolist(), strict=True)
            print(f"{_name(answer.move)}  ({', '.join(f'{name} {share:.1%}' for name, share in shares)})")
            return
        if sys.stdin.isatty():
            print("Type boards, one a line and 16 columns each; Ctrl-D ends them.", file=sys.stderr)
        boards = parse_lines(
            sys.stdin, tiles=options.tiles, largest_exponent=selected.largest_exponent or LARGEST_EXPONENT
        )
        print(",".join(("move", *MOVE_NAMES)))
        for start in range(0, len(boards), BOARDS_A_CALL):
            answers = client.next_moves(boards[start : start + BOARDS_A_CALL])
            assert answers.probabilities is not None
            for number, row in zip(answers.moves.tolist(), answers.probabilities.tolist(), strict=True):
                print(",".join((_name(number), *(f"{share:.4f}" for share in row))))


def models(options: Namespace) -> None:
    """Prints every model version of a server, with the reason of those that are not ready."""
    with _first_client_of(options.target, credentials_of(options)) as client:
        for model in client.list_models():
            print(f"{model.name} (default)" if model.is_default else model.name)
            for version in model.versions:
                print(f"  {version.version}  {_described(version)}")


def ready(options: Namespace) -> None:
    """Returns when the server says that it serves; raises `Unavailable` when it does not within seconds."""
    with Client(options.target, credentials=credentials_of(options)) as client:
        client.wait_until_ready(READY_SECONDS)


def evaluate(options: Namespace) -> None:
    """Plays games against running servers or by local players, one model or player after the other, and
    prints how they went.
    """
    if options.out:
        check_writable(options.out)
    # The server's default model plays only where nobody is named at all.
    models = options.models or ([] if options.players else [""])
    if options.version and not models:
        raise EvaluationError("--version is of a server's model, and only local players are to play")
    if models:
        options.targets = answering(options.targets, credentials_of(options))
    every: list[Contender] = [
        select_on(options.targets, *asked_for(model, options.version), credentials_of(options))
        for model in models
    ]
    every += map(local_player, options.players)
    for number, contender in enumerate(every):
        if number:
            print()
        show(*evaluate_into(folder_of(contender, options, alone=len(every) == 1), contender, options))


def play(options: Namespace) -> None:
    """Plays games against a server of its own, which it stops whatever happens.

    Without --out, an evaluation that was interrupted is finished, and one that is complete, or that another
    program is at, is left alone: the next goes into a folder of its own beside it.
    """
    check_writable(options.out or RESULTS)
    starting = Text(f"Starting a server with the models in {options.models} ...", style="dim")
    Console(stderr=True).print(starting)
    with LocalServer(options.models) as server:
        options.targets = [server.target]
        selected = select_on(options.targets, options.model, options.version, credentials_of(options))
        try:
            if options.out:
                show(*evaluate_into(ResultFolder(options.out), selected, options))
                return
            for folder in _unfinished(_folder_name("play", selected, options), selected, options.seed):
                with suppress(FolderInUse):
                    show(*evaluate_into(folder, selected, options))
                    return
        except OctofoldError:
            server.check()  # a server that died says more than the call that it left unanswered
            raise


def evaluate_into(
    folder: ResultFolder, contender: Contender, options: Namespace, games: int | None = None
) -> tuple[ResultFolder, Evaluation]:
    """Plays `games` (default: those of the options) into `folder`, with progress on standard error.

    Raises as `evaluation.evaluate` does, and says then what is kept.
    """
    games = games or options.games
    counted = f"{games:,} game{'s' if games > 1 else ''}"
    title = f"{contender.title}: {counted}, seed {options.seed}"
    progress = progress_on(Console(stderr=True), games, title)
    parallel = LOCAL_PARALLEL if isinstance(contender, LocalContender) else PARALLEL
    try:
        with DeferredInterrupts() as interrupts, ExitStack() as stack, progress:
            evaluation = run_evaluation(
                _sources_of(contender, options, stack, interrupts.check),
                contender,
                folder,
                seed=options.seed,
                games=games,
                parallel=options.parallel or parallel,
                progress=progress,
                while_waiting=interrupts.check,
            )
    except (KeyboardInterrupt, OctofoldError):
        if progress.done or progress.running:
            kept = f"{progress.done:,} of {counted} are kept in {folder.path}"
            if progress.running:
                kept += f", and the {progress.running:,} that were running"
            print(f"{kept}; the same command goes on from there.", file=sys.stderr)
        raise
    return folder, evaluation


def _sources_of(
    contender: Contender, options: Namespace, stack: ExitStack, while_waiting: Callable[[], None]
) -> list[Source]:
    """What answers for the contender, until the stack is left."""
    if isinstance(contender, LocalContender):
        return [stack.enter_context(LocalSource(contender))]
    credentials = credentials_of(options)
    return [
        stack.enter_context(client_of(target, contender, credentials, while_waiting))
        for target in options.targets
    ]


def show(folder: ResultFolder, evaluation: Evaluation) -> None:
    """Prints the table of an evaluation and where its files lie."""
    print_report(evaluation.summary, evaluation.title, Console())
    print()
    print(_pace(evaluation))
    print(f"replays: {folder.replays}")
    print(f"result:  {folder.result}")
    print(f"report:  {folder.report}")


def select_on(targets: Sequence[str], name: str, version: str, credentials: Credentials) -> Selected:
    """The version that all these servers answer with. Raises `EvaluationError` where one has another."""
    first, *others = ((target, _select(target, name, version, credentials)) for target in targets)
    for target, selected in others:
        if Conditions.of(selected, 0) != Conditions.of(first[1], 0):
            raise EvaluationError(
                f"{target} answers with another {selected.title} than {first[0]}: "
                f"{differences(Conditions.of(first[1], 0), Conditions.of(selected, 0))}"
            )
    return first[1]


def answering(targets: Sequence[str], credentials: Credentials) -> Sequence[str]:
    """Those of the servers that are there; each other one is named on standard error, so that an evaluation
    that lost a server goes on by the same command. Raises as `Client` does where none is there.
    """
    missing: dict[str, OctofoldError] = {}
    for target in targets:
        try:
            with _first_client_of(target, credentials) as client:
                client.list_models()
        except (Unavailable, DeadlinePassed) as error:
            missing[target] = error
    if len(missing) == len(targets):
        raise missing[targets[0]]
    for target, reason in missing.items():
        print(f"{target} is not asked: {reason}", file=sys.stderr)
    return [target for target in targets if target not in missing]


def folder_of(contender: Contender, options: Namespace, alone: bool) -> ResultFolder:
    """Where the games of an evaluation belong; below --out, a folder for each of several."""
    name = _folder_name("evaluate", contender, options)
    if not options.out:
        return ResultFolder(RESULTS / name)
    return ResultFolder(options.out if alone else options.out / name)


def asked_for(text: str, version: str = "") -> tuple[str, str]:
    """The name and version that NAME or NAME:VERSION mean; `version` where it says none."""
    name, _, own = text.partition(":")
    return name, own or version


def _pace(evaluation: Evaluation) -> str:
    run = evaluation.run
    if run is None or run.moves_per_second is None:
        return "All games were played by an earlier run."
    pace = f"{run.moves_per_second:,.0f} moves/s over {run.seconds:,.1f} s"
    inference = run.inference_us / run.requests / 1000
    queue = run.queue_us / run.requests / 1000
    return f"pace:    {pace}; a call queued for {queue:.1f} ms and computed for {inference:.1f} ms"


def _select(target: str, name: str, version: str, credentials: Credentials) -> Selected:
    with _first_client_of(target, credentials) as client:
        return select(client.list_models(), name, version)


def _first_client_of(target: str, credentials: Credentials) -> Client:
    """A client that gives up soon, for the call that finds out whether a server is there at all."""
    return Client(target, timeout_seconds=10.0, retry=RetryPolicy(attempts=3), credentials=credentials)


def client_of(
    target: str,
    selected: Contender,
    credentials: Credentials,
    while_waiting: Callable[[], None] = lambda: None,
) -> Client:
    """A client of exactly this version, whatever is published meanwhile."""
    return Client(
        target,
        model=selected.model,
        version=selected.version.version,
        credentials=credentials,
        while_waiting=while_waiting,
    )


def credentials_of(options: Namespace) -> Credentials:
    """Those that the flags name; a server of our own asks for none, and there are no flags for it."""
    if "tls" not in options:
        return Credentials()
    return Credentials.from_files(
        tls=options.tls,
        authorities=options.tls_ca,
        certificate=options.tls_certificate,
        key=options.tls_key,
        token=options.token_file,
    )


def _folder_name(command: str, contender: Contender, options: Namespace) -> str:
    # A local player's name may hold a path.
    model = re.sub(r"[^\w.,=-]+", "-", contender.model)
    return f"{command}-{model}-v{contender.version.version}-seed{options.seed}"


def _unfinished(name: str, selected: Selected, seed: int) -> Iterator[ResultFolder]:
    """Those of NAME, NAME-2, NAME-3 ... that are new, or were left unfinished under the same conditions."""
    conditions = Conditions.of(selected, seed)
    number = 1
    while True:
        folder = ResultFolder(RESULTS / (name if number == 1 else f"{name}-{number}"))
        if not folder.result.exists() and folder.conditions() in (None, conditions):
            yield folder
        number += 1


def _name(move: int) -> str:
    return "over" if move < 0 else MOVE_NAMES[move]


def _described(version: ModelVersion) -> str:
    if not version.ready:
        return f"{version.state}: {version.reason}" if version.reason else version.state
    card = version.card or {}
    parts = ["ready", version.precision]
    if isinstance(weights := card.get("weights"), int):
        parts.append(f"{weights:,} weights")
    if rule := card.get("decision_rule"):
        parts.append(f"{rule} of {card.get('symmetries')}" if card.get("symmetries") else str(rule))
    return ", ".join(part for part in parts if part)

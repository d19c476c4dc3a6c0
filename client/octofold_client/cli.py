"""The command `octofold`: next moves, evaluations and a server's models, from a terminal.

Every failure that can be foreseen ends as one line, `octofold: ...`, and exit code 1; a wrong command line
ends with 2, Ctrl-C with 130. What the subcommands do is in `commands.py`.
"""

import argparse
import functools
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from octofold_game.replays import ReplayError
from octofold_game.rules import BoardError

from octofold_client import analysing, commands, comparing, judging, replaying
from octofold_client.board_text import BoardTextError
from octofold_client.errors import OctofoldError
from octofold_client.loadtest.arguments import add_arguments as add_loadtest_arguments
from octofold_client.loadtest.command import loadtest as run_loadtest

FAILURE, INTERRUPTED = 1, 130
MOST_GAMES = 10**9
MOST_PARALLEL = 2 * 65_536
"""Two half-groups, each of as many boards as a server takes in one call."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns the exit code."""
    options = _parser().parse_args(arguments)
    # A terminal that closes or a supervisor that ends us must not leave a server behind. A signal that is
    # ignored stays so: in this way nohup says that the program is to outlive its terminal.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit)
    try:
        options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("octofold: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left; nothing more can be said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except (OctofoldError, BoardError, BoardTextError, ReplayError, OSError) as error:
        print(f"octofold: {error}", file=sys.stderr)
        return FAILURE
    return 0


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="octofold", description="Plays 2048 with the models of a server.")
    subcommands = parser.add_subparsers(required=True, metavar="COMMAND")

    move = subcommands.add_parser(
        "move",
        help="the next move for a board, or for a file of boards",
        description="Prints the move for the board on the command line, or for each line of standard input "
        "(16 columns, apart by commas or spaces) one line of CSV.",
    )
    move.add_argument(
        "board", nargs="*", help="16 exponents, row by row: 0 empty, 1 is tile 2, 2 is tile 4 ..."
    )
    move.add_argument("--tiles", action="store_true", help="cells are tiles: 0, 2, 4, 8 ... not exponents")
    _add_server(move)
    _add_model(move)
    move.set_defaults(run=commands.move)

    evaluate = subcommands.add_parser(
        "evaluate",
        help="play games and judge them",
        description="Plays full games against a server, or by a player in this process, and prints how well "
        "they went. Every move is kept: after Ctrl-C or a lost connection, the same command goes on where it "
        "stopped.",
    )
    _add_servers(evaluate)
    evaluate.add_argument(
        "--model",
        type=_listed,
        default=[],
        dest="models",
        metavar="NAME[,NAME ...]",
        help="played one after the other; NAME:N is version N (default: the server's default model)",
    )
    evaluate.add_argument("--version", default="", metavar="N", help="default: the newest that is ready")
    _add_players(evaluate)
    _add_games(evaluate)
    evaluate.set_defaults(run=commands.evaluate)

    compare = subcommands.add_parser(
        "compare",
        help="say which of two players is better, and how sure that is",
        usage="%(prog)s [A] [B] [--player SPEC] [--player SPEC] [options]",
        description="Compares two result folders, or two models of a server or local players, on the same "
        "games: the average difference, its 95% interval and a plain sentence.",
    )
    compare.add_argument(
        "sides",
        nargs="*",
        metavar="A B",
        help="two folders of results, or models: NAME or NAME:VERSION; fewer where --player names the rest",
    )
    _add_players(compare)
    _add_servers(compare)
    _add_games(compare)
    compare.add_argument(
        "--until-decided",
        action="store_true",
        help="play on until the interval excludes zero; equal models are told apart wrongly in at most 5%% "
        "of such runs",
    )
    compare.add_argument(
        "--limit",
        type=functools.partial(_count, most=MOST_GAMES),
        default=10_000,
        metavar="N",
        help="games at which --until-decided gives up (default %(default)s)",
    )
    compare.set_defaults(run=comparing.compare)

    play = subcommands.add_parser(
        "play",
        help="start a server, evaluate a model on it, stop it",
        description="Like evaluate, with a server of its own on a free loopback port. OCTOFOLD_DEVICE and "
        "the other variables of octofold-serve reach that server.",
    )
    play.add_argument(
        "--models", type=Path, default=Path("models"), metavar="DIR", help="the model repository"
    )
    _add_model(play)
    _add_games(play)
    play.set_defaults(run=commands.play)

    verify = subcommands.add_parser(
        "verify",
        help="replay games by the rules and say whether their records are true",
        description="Replays every game by rules of its own: each move, each new tile, the score and "
        "the final board. Ends with 0 only when all of it is true.",
    )
    verify.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="a replay file, or a folder of results"
    )
    verify.set_defaults(run=judging.verify)

    replay = subcommands.add_parser(
        "replay",
        help="step through a game on the terminal",
        description="Shows a game move by move, forwards and backwards, and with --target or --model the "
        "probabilities and votes that a model gives to each move.",
    )
    replay.add_argument("file", type=Path, metavar="FILE", help="a replay file, or a folder of results")
    replay.add_argument(
        "--game", type=_game, default="best", metavar="best|worst|N", help="which one (default %(default)s)"
    )
    replay.add_argument(
        "--move",
        type=functools.partial(_count, most=MOST_GAMES, least=0),
        default=0,
        metavar="N",
        help="where to begin: after N moves",
    )
    replay.add_argument("--target", default="", metavar="HOST:PORT", help="the server of that model")
    _add_credentials(replay)
    _add_model(replay)
    replay.set_defaults(run=replaying.replay)

    report = subcommands.add_parser(
        "report",
        help="write result, report and pictures anew from the replays of a folder",
        description="Writes result.json and report.md anew from the replays of a result folder, also of an "
        "evaluation that was not finished, and prints the table.",
    )
    report.add_argument("folder", type=Path, metavar="FOLDER")
    report.add_argument(
        "--plots", action="store_true", help="draw pictures beside them (needs octofold[plots])"
    )
    report.set_defaults(run=judging.report)

    analyse = subcommands.add_parser(
        "analyse",
        help="say where games are lost",
        description="Looks at the last moves of every game of a result folder: how far the games came, and, "
        "with --player or --model, how often a stronger player agrees and which moves cost most.",
    )
    analyse.add_argument("folder", type=Path, metavar="FOLDER", help="a folder of results")
    analyse.add_argument(
        "--last",
        type=functools.partial(_count, most=MOST_GAMES),
        default=50,
        metavar="K",
        help="moves of each game to look at (default %(default)s)",
    )
    analyse.add_argument(
        "--costliest",
        type=functools.partial(_count, most=1000, least=0),
        default=5,
        metavar="N",
        help="moves to show as boards (default %(default)s)",
    )
    judge = analyse.add_mutually_exclusive_group()
    judge.add_argument(
        "--player", metavar="SPEC", help="a player in this process, such as expectimax:depth=3"
    )
    judge.add_argument("--model", default="", metavar="NAME", help="a model of the server, NAME or NAME:N")
    _add_server(analyse)
    analyse.add_argument(
        "--plots", action="store_true", help="draw a picture beside the report (needs octofold[plots])"
    )
    analyse.set_defaults(run=analysing.analyse)

    loadtest = subcommands.add_parser(
        "loadtest",
        help="say what a server holds: rates, latencies, and where the time goes",
        description="Puts load on a server, step by step, each until three measurements agree, and prints "
        "rates and latencies. Ctrl-C keeps what was measured.",
    )
    _add_server(loadtest)
    _add_model(loadtest)
    add_loadtest_arguments(loadtest)
    loadtest.set_defaults(run=run_loadtest)

    models = subcommands.add_parser("models", help="list the models of a server")
    _add_server(models)
    models.set_defaults(run=commands.models)

    ready = subcommands.add_parser(
        "ready",
        help="say by the exit code whether a server is ready",
        description="Ends with 0 when the server says that it serves, with 1 when it does not within a few "
        "seconds: while it starts or drains, or when it is not there.",
    )
    _add_server(ready)
    ready.set_defaults(run=commands.ready)
    return parser


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", default="127.0.0.1:50051", metavar="HOST:PORT", help="the server (default %(default)s)"
    )
    _add_credentials(parser)


def _add_credentials(parser: argparse.ArgumentParser) -> None:
    security = parser.add_argument_group("for a server that asks for it")
    security.add_argument("--tls", action="store_true", help="TLS; any of the next three means it, too")
    security.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="PEM of whom to believe (default: the system's)",
    )
    security.add_argument("--tls-certificate", type=Path, metavar="FILE", help="PEM of our own certificate")
    security.add_argument("--tls-key", type=Path, metavar="FILE", help="PEM of its private key")
    security.add_argument(
        "--token-file", type=Path, metavar="FILE", help="holds the bearer token (default: OCTOFOLD_TOKEN's)"
    )


def _add_servers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        type=_listed,
        default=["127.0.0.1:50051"],
        dest="targets",
        metavar="HOST:PORT[,HOST:PORT ...]",
        help="the servers that share the games (default 127.0.0.1:50051)",
    )
    _add_credentials(parser)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="", metavar="NAME", help="default: the server's default model")
    parser.add_argument("--version", default="", metavar="N", help="default: the newest that is ready")


def _add_players(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--player",
        action="append",
        default=[],
        dest="players",
        metavar="SPEC",
        help="a player in this process, such as random or expectimax:depth=2 (docs/players.md lists them)",
    )


def _add_games(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--games",
        type=functools.partial(_count, most=MOST_GAMES),
        default=100,
        metavar="N",
        help="default %(default)s",
    )
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="fixes the games (default 0)")
    parser.add_argument(
        "--parallel",
        type=functools.partial(_count, most=MOST_PARALLEL),
        metavar="N",
        help=f"games at a time (default {commands.PARALLEL}; {commands.LOCAL_PARALLEL} for a local player)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where replays and result go (default: in results)"
    )


def _game(text: str) -> str | int:
    return text if text in ("best", "worst") else _count(text, MOST_GAMES, least=0)


def _listed(text: str) -> list[str]:
    listed = text.split(",")
    if not all(listed):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    if len(set(listed)) < len(listed):
        raise argparse.ArgumentTypeError(f"{text} names something twice")
    return listed


def _count(text: str, most: int, least: int = 1) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is not a number from {least} to {most:,}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to 2**64 - 1")
    return int(text)

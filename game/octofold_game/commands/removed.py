"""Flags and commands of 0.1.0 that were removed, each with advice on a replacement."""

from __future__ import annotations

_LIMIT = "the limit is fixed; use a proxy such as Envoy for a lower one"
_LOAD = "the load consists of boards of recorded games, so no option is needed"

REMOVED: dict[str, dict[str, str]] = {
    "octofold": {
        "replay": "use the page of octofold-serve, which also saves GIF and text, or octofold report --html",
    },
    "octofold-train": {
        "ppo": "use octofold-train student, or train PPO with Stable-Baselines3 and use octofold-export",
        "value": "train a value network with any library, and use octofold-export",
    },
    "octofold analyse": {"--plots": "use --html to see the pictures"},
    "octofold compare": {"--plots": "use --html to see the picture"},
    "octofold loadtest": {
        "--arrivals": "use --rate to send calls at even intervals, or ghz or k6 for other arrival processes",
        "--boards": _LOAD,
        "--games": _LOAD,
        "--seed": "all load tests send the same boards, so no seed is needed",
        "--think": "use --rate to send calls at a fixed rate, or ghz or k6 for other arrival processes",
    },
    "octofold-serve": {
        "--tune": "the best batch size is measured when a model is loaded; set another one with --lanes, "
        "--threads and --max-batch-size",
        "--spinning": "threads never spin while they wait, so no option is needed",
        "--tf32": "use --precision fp16, which is faster; the card has the share of moves that are equal to "
        "those of fp32",
        "--tensorrt": "use NVIDIA Triton to serve the same folder with TensorRT",
        "--max-message-bytes": _LIMIT,
        "--max-boards": _LIMIT,
        "--max-streams": _LIMIT,
        "--max-streams-per-connection": _LIMIT,
        "--stream-idle": _LIMIT,
        "--max-calls-per-connection": _LIMIT,
    },
}
"""For each command, such as "octofold evaluate": its removed flags and subcommands, each with advice on a
replacement.

A switch is listed without `no-`. An option of the server is listed as its flag; its variable and its key in a
file were removed, too."""


def removal_notice(prog: str, word: str, shown: str = "") -> str:
    """Return advice on a replacement for a removed flag or subcommand; empty for other words.

    Args:
        prog: the command, such as "octofold evaluate".
        word: the flag or the subcommand.
        shown: the text to show instead of `word`, such as the variable of the flag.
    """
    gone = REMOVED.get(prog, {})
    instead = gone.get(word) or gone.get(word.replace("--no-", "--", 1))
    return f"{shown or word} was removed: {instead}" if instead else ""

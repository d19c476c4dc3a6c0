"""Flags and commands of earlier versions that were removed, with replacements."""

from __future__ import annotations

_SIGN = "sign and verify the version's folder with cosign or OpenSSF's model_signing"
_COMPLETION = "--help lists all options"
_PAPERS = ("imitation", "dqn", "lazyzero", "moves", "tune", "table")
_LAYOUT = (
    "the batch size is measured when a model is loaded; --lanes, --threads and --max-batch-size set others"
)
_LIMIT = "the limit is fixed; a proxy such as Envoy sets others"
_BOARDS = "keep the boards in the calling program, or log games with octofold evaluate --logs"

REMOVED: dict[str, dict[str, str]] = {
    "octofold-export": {
        "--completion": _COMPLETION,
        "--exported-program": "make an ONNX file for --onnx: torch.onnx.export(torch.export.load(FILE), "
        "dynamo=True).save('net.onnx')",
        "--judge": "games of the network itself check its description",
        "--sign": _SIGN,
        "--sign-password-file": _SIGN,
    },
    "octofold": {
        "record": "octofold evaluate --logs writes play logs; --player and --model select the player",
        "luck": "octofold report --html shows the luckiest and the unluckiest games",
        "--completion": _COMPLETION,
        "replay": "the page of octofold-serve and report --html show games; the page saves GIF and text",
        "ray": "Kubernetes, Slurm or KubeRay start servers; evaluate --ray --target HOST:PORT spreads games",
    },
    "octofold-papers": {"--completion": _COMPLETION},
    "octofold-train": {
        "--completion": _COMPLETION,
        "ppo": "octofold-train student learns more; octofold-export reads PPO of Stable-Baselines3",
        "value": "train a value network with any library, and fold it with octofold-export",
        **{name: f"octofold-papers {name} does it" for name in _PAPERS},
    },
    "octofold report": {
        "--parquet": "result.json has the scores",
    },
    "octofold analyse": {
        "--plots": "--html shows the pictures",
    },
    "octofold compare": {
        "--plots": "--html shows the picture",
    },
    "octofold evaluate": {
        "--ray-name": "name the servers with --target",
    },
    "octofold hand": {
        "--hint": "hints are shown from the start; --no-hint hides them",
    },
    "octofold loadtest": {
        "--arrivals": "--rate sends calls at even intervals; ghz and k6 offer other arrivals",
        "--boards": "leave it out: boards of recorded games make the same load",
        "--games": "leave it out: boards of recorded games make the same load",
        "--html": "--plots draws the picture, and loadtest.json has the result",
        "--seed": "leave it out: all tests send the same boards",
        "--think": "ghz and k6 offer other arrivals; --rate sends calls at a fixed rate",
    },
    "octofold-serve": {
        "--completion": _COMPLETION,
        "--verify-models": _SIGN,
        "--tune": _LAYOUT,
        "--spinning": "threads never spin while they wait",
        "--tf32": "fp16, which the card measures, is faster",
        "--cuda-graphs": "a GPU's work is recorded wherever that is possible",
        "--tensorrt": "NVIDIA Triton serves the same folder with TensorRT",
        "--max-message-bytes": _LIMIT,
        "--message-timeout": _LIMIT,
        "--max-bytes-in-flight": _LIMIT,
        "--max-boards": _LIMIT,
        "--max-streams": _LIMIT,
        "--max-streams-per-connection": _LIMIT,
        "--stream-idle": _LIMIT,
        "--connection-idle": _LIMIT,
        "--max-connection-age-grace": _LIMIT,
        "--max-calls-per-connection": _LIMIT,
        "--strict-calls-per-connection": "put Envoy in front of the server, with deploy/envoy/envoy.yaml",
        "--asked-boards": _BOARDS,
        "--asked-boards-bytes": _BOARDS,
        "--push-metrics": "let a collector of OpenTelemetry read /metrics, as docs/observation.md shows",
        "--load-report": "let a proxy weigh servers by their metrics, or by requests in flight",
        "--canary": "let a proxy split the traffic between two servers",
    },
}
"""A sentence for each removed flag or subcommand, by command, such as "octofold" or "octofold evaluate". An
option of the server is listed as its flag. Its variable and its key in a file were removed, too.

A switch is listed without `no-`. An option of the server is listed as its flag; its variable and its key in a
file are gone, too.
"""


def why_gone(prog: str, word: str, shown: str = "") -> str:
    """Return the error for a removed flag or command; empty for any other word.

    Args:
        prog: the command, such as "octofold evaluate".
        word: the flag or the subcommand.
        shown: the text to show instead of `word`, such as the variable of the flag.
    """
    gone = REMOVED.get(prog, {})
    instead = gone.get(word) or gone.get(word.replace("--no-", "--", 1))
    return f"{shown or word} is gone: {instead}" if instead else ""

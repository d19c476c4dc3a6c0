"""Flags and commands that were removed, each with what to do instead."""

from __future__ import annotations

_SIGN = "use cosign or OpenSSF's model_signing to sign and verify the version's folder"
_COMPLETION = "use --help to list all options"
_PAPERS = ("imitation", "dqn", "lazyzero", "moves", "tune", "table")
_LAYOUT = (
    "the best batch size is measured when a model is loaded; set another one with --lanes, --threads and "
    "--max-batch-size"
)
_LIMIT = "the limit is fixed; use a proxy such as Envoy for a lower one"
_BOARDS = "use octofold evaluate --logs to log games, or record the boards in the calling program"
_LOAD = "the load consists of boards of recorded games, so no option is needed"

REMOVED: dict[str, dict[str, str]] = {
    "octofold-export": {
        "--completion": _COMPLETION,
        "--exported-program": "write an ONNX file for --onnx: torch.onnx.export(torch.export.load(FILE), "
        "dynamo=True).save('net.onnx')",
        "--judge": "the export checks the description by games of the network itself",
        "--sign": _SIGN,
        "--sign-password-file": _SIGN,
    },
    "octofold": {
        "record": "use octofold evaluate --logs to write play logs, with --player or --model",
        "luck": "use octofold report --html to see the luckiest and the unluckiest games",
        "--completion": _COMPLETION,
        "replay": "use the page of octofold-serve, which also saves GIF and text, or octofold report --html",
        "ray": "start servers with Kubernetes, Slurm or KubeRay; play with octofold evaluate --ray --target "
        "HOST:PORT",
    },
    "octofold-papers": {"--completion": _COMPLETION},
    "octofold-train": {
        "--completion": _COMPLETION,
        "ppo": "use octofold-train student, or train PPO with Stable-Baselines3 and use octofold-export",
        "value": "train a value network with any library, and use octofold-export",
        **{name: f"use octofold-papers {name}" for name in _PAPERS},
    },
    "octofold report": {
        "--parquet": "read the scores in result.json",
    },
    "octofold analyse": {
        "--plots": "use --html to see the pictures",
    },
    "octofold compare": {
        "--plots": "use --html to see the picture",
    },
    "octofold evaluate": {
        "--ray-name": "use --target with the addresses of the servers",
    },
    "octofold hand": {
        "--hint": "hints are shown by default; use --no-hint to hide them",
    },
    "octofold loadtest": {
        "--arrivals": "use --rate to send calls at even intervals, or ghz or k6 for other arrival processes",
        "--boards": _LOAD,
        "--games": _LOAD,
        "--html": "use --plots for a picture, and read the result in loadtest.json",
        "--seed": "all load tests send the same boards, so no seed is needed",
        "--think": "use --rate to send calls at a fixed rate, or ghz or k6 for other arrival processes",
    },
    "octofold-serve": {
        "--completion": _COMPLETION,
        "--verify-models": _SIGN,
        "--tune": _LAYOUT,
        "--spinning": "threads never spin while they wait, so no option is needed",
        "--tf32": "use the precision fp16, which is faster and measured in the card",
        "--cuda-graphs": "CUDA graphs are used wherever that is possible, so no option is needed",
        "--tensorrt": "use NVIDIA Triton to serve the same folder with TensorRT",
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
        "--strict-calls-per-connection": "use Envoy in front of the server, as in deploy/envoy/envoy.yaml",
        "--asked-boards": _BOARDS,
        "--asked-boards-bytes": _BOARDS,
        "--push-metrics": "use an OpenTelemetry collector to read /metrics, as docs/observation.md shows",
        "--load-report": "use a proxy that balances load by the servers' metrics or by requests in flight",
        "--canary": "use a proxy to split the traffic between two servers",
    },
}
"""What to do instead of each removed flag or subcommand, by command, such as "octofold" or "octofold
evaluate".

A switch is listed without `no-`. An option of the server is listed as its flag; its variable and its key in a
file were removed, too."""


def why_gone(prog: str, word: str, shown: str = "") -> str:
    """Return an error that says what to do instead of a removed flag or command; empty for any other word.

    Args:
        prog: the command, such as "octofold evaluate".
        word: the flag or the subcommand.
        shown: the text to show instead of `word`, such as the variable of the flag.
    """
    gone = REMOVED.get(prog, {})
    instead = gone.get(word) or gone.get(word.replace("--no-", "--", 1))
    return f"{shown or word} was removed: {instead}" if instead else ""

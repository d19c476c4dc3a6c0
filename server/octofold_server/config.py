"""The server's configuration: one frozen dataclass, from which the flags, their environment variables and
their help are derived.

A flag wins over its environment variable, which wins over the default. Every value is checked here, and
nothing behind checks it again. Knows nothing about what the values are used for.
"""

# ruff: noqa: RUF009 -- _option is dataclasses.field, with metadata

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

__all__ = ["Config", "ConfigError", "read_config"]

ENVIRONMENT_PREFIX = "OCTOFOLD_"


class ConfigError(Exception):
    """A value that is not allowed; the message names the flag or variable, the value and what is allowed."""


@dataclass(frozen=True)
class _Kind:
    """What a flag takes: `parse` raises ValueError for whatever `allowed` does not describe."""

    parse: Callable[[str], Any]
    allowed: str


def _integer(lowest: int, highest: int) -> _Kind:
    def parse(text: str) -> int:
        value = int(text)
        if not lowest <= value <= highest:
            raise ValueError
        return value

    return _Kind(parse, f"an integer from {lowest} to {highest}")


def _one_of(*choices: str) -> _Kind:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError
        return text

    return _Kind(parse, ", ".join(choices[:-1]) + f" or {choices[-1]}")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86_400:
        raise ValueError
    return value


def _switch(text: str) -> bool:
    return {"1": True, "true": True, "0": False, "false": False}[text.lower()]


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _path(text: str) -> Path:
    return Path(_text(text))


_TEXT = _Kind(_text, "a name")
_PATH = _Kind(_path, "a path")
_SECONDS = _Kind(_seconds, "seconds from 0 to 86400")
_SWITCH = _Kind(_switch, "true, false, 1 or 0")


def _option(default: Any, kind: _Kind, text: str) -> Any:
    return field(default=default, metadata={"kind": kind, "help": text})


@dataclass(frozen=True)
class Config:
    """How one server runs. Each field is a flag; its help says what for."""

    host: str = _option(
        "127.0.0.1", _TEXT, "address to listen on; loopback, until you decide who may reach the service"
    )
    port: int = _option(50051, _integer(0, 65535), "port to listen on; 0 takes a free one, see --port-file")
    port_file: Path | None = _option(
        None, _PATH, "file to write the port to once the service is ready, for whoever starts it on --port 0"
    )
    models: Path = _option(Path("models"), _PATH, "model repository: a folder of NAME/VERSION/card.json")
    default_model: str = _option(
        "", _TEXT, "model that answers calls which name none; not needed where only one model is served"
    )
    device: str = _option(
        "auto",
        _one_of("auto", "cpu", "cuda"),
        "where models run; auto takes a GPU when onnxruntime finds one",
    )
    precision: str = _option(
        "auto",
        _one_of("auto", "fp32", "int8", "fp16"),
        "which file of a model runs; auto takes int8 on a CPU with VNNI, fp16 on a GPU, else fp32",
    )
    max_batch_size: int = _option(
        0,
        _integer(0, 65_536),
        "boards in a batch at most; larger is no faster once the device is full, only slower to answer; "
        "0 takes 32 on a CPU and 1024 on a GPU",
    )
    queue_capacity: int = _option(
        131_072,
        _integer(1, 100_000_000),
        "boards that may wait for a model; beyond, calls fail at once with RESOURCE_EXHAUSTED rather than "
        "wait for longer than anybody listens",
    )
    lanes: int = _option(
        0, _integer(0, 1024), "batches that run at the same time; 0 takes one a CPU core, or one on a GPU"
    )
    grace: float = _option(
        5.0,
        _SECONDS,
        "seconds to go on serving after SIGTERM while health says NOT_SERVING, for load balancers to notice; "
        "a second signal ends them",
    )
    reflection: bool = _option(
        True, _SWITCH, "describe the API to tools such as grpcurl, which then need no .proto files"
    )


def read_config(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Config:
    """The configuration from command-line arguments (without the program's name) and the environment.

    Raises:
        ConfigError: a value is not allowed.
        SystemExit: help was asked for (code 0), or an argument is unknown (code 2).
    """
    parser = argparse.ArgumentParser(
        prog="octofold-serve",
        description="Serve 2048 models over gRPC.",
        epilog="Every flag has an environment variable: --max-batch-size is OCTOFOLD_MAX_BATCH_SIZE.",
        allow_abbrev=False,
    )
    for option in fields(Config):
        default = "" if option.default in (None, "") else f" (default: {option.default})"
        text = option.metadata["help"] + default
        if option.metadata["kind"] is _SWITCH:
            parser.add_argument(_flag(option.name), action=argparse.BooleanOptionalAction, help=text)
        else:
            parser.add_argument(_flag(option.name), metavar=option.name.upper(), help=text)
    given = vars(parser.parse_args(arguments))

    values: dict[str, Any] = {}
    for option in fields(Config):
        variable = ENVIRONMENT_PREFIX + option.name.upper()
        if isinstance(given[option.name], bool):
            values[option.name] = given[option.name]
        elif given[option.name] is not None:
            values[option.name] = _parse(option.metadata["kind"], _flag(option.name), given[option.name])
        elif variable in environment:
            values[option.name] = _parse(option.metadata["kind"], variable, environment[variable])
    return Config(**values)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _parse(kind: _Kind, source: str, text: str) -> Any:
    try:
        return kind.parse(text)
    except (ValueError, KeyError):
        raise ConfigError(f"{source}: {text!r} is not allowed; it takes {kind.allowed}") from None

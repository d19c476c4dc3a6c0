"""The server's configuration: one frozen dataclass, from which the flags, their environment variables and
their help are derived.

A flag wins over its environment variable, which wins over the file named by --config, which wins over the
default. Every value is checked here, and nothing behind checks it again. None of them is a secret: tokens and
keys are in files, of which these are the names. Knows nothing about what the values are used for.
"""

# ruff: noqa: RUF009 -- _option is dataclasses.field, with metadata

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from octofold_server.config.policies import VersionPolicies, parse_policies

__all__ = ["Config", "ConfigError", "read_config", "unknown_variables"]

ENVIRONMENT_PREFIX = "OCTOFOLD_"
CLIENTS_VARIABLES = {"OCTOFOLD_TOKEN"}
FILE_OPTION = "config"


class ConfigError(Exception):
    """A value that is not allowed; the message names the flag, the variable or the file and its key, the
    value, and what is allowed."""


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


_POLICIES = _Kind(
    parse_policies, "all, latest:N, or versions such as 1,3; then ;MODEL=... for every model that differs"
)
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
    rest_port: int | None = _option(
        None,
        _integer(0, 65535),
        "port for the Open Inference Protocol over REST, /metrics, /healthz and /readyz; 0 takes a free one, "
        "see --rest-port-file; without it there is no HTTP",
    )
    rest_port_file: Path | None = _option(
        None, _PATH, "file to write the REST port to, before --port-file is written"
    )
    models: Path = _option(Path("models"), _PATH, "model repository: a folder of NAME/VERSION/card.json")
    versions: VersionPolicies = _option(
        VersionPolicies(),
        _POLICIES,
        "versions to serve: all keeps old ones for whoever asks for them by number, latest:1 costs the least "
        'memory, 1,3 pins them; "latest:1;cnn5=1,3" has another rule for one model',
    )
    watch: float = _option(
        0.0,
        _SECONDS,
        "seconds between two looks at the model repository, after which changes are loaded; 0 waits to be "
        "told, by SIGHUP or by RPC",
    )
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
        "0 takes what --tune found, else 1024 on a GPU and 32 on a CPU; with several lanes there, the "
        "smallest of 8, 16 and 32 whose batch takes long enough to be worth its overhead, measured at load",
    )
    queue_capacity: int = _option(
        131_072,
        _integer(1, 100_000_000),
        "boards of each priority that may wait for a model; beyond, calls fail at once with "
        "RESOURCE_EXHAUSTED rather than wait for longer than anybody listens",
    )
    lanes: int = _option(
        0,
        _integer(0, 1024),
        "batches that run at the same time; 0 takes what --tune found, else one for each CPU core, or one "
        "on a GPU",
    )
    threads: int = _option(
        0, _integer(0, 1024), "threads of each lane, on a CPU; 0 takes what --tune found, else one"
    )
    spinning: bool = _option(
        False,
        _SWITCH,
        "let a lane's threads hold their cores while they wait for each other; only for a machine that does "
        "nothing else",
    )
    tf32: bool = _option(
        False, _SWITCH, "let a GPU round factors to 10 bits where a model computes in float32"
    )
    tensorrt: Path | None = _option(
        None,
        _PATH,
        "run models in fp16 by TensorRT, and keep its engines, which take minutes to build, in this folder",
    )
    tune: bool = _option(
        False,
        _SWITCH,
        "instead of serving, measure for about a minute a model which batches, lanes and threads are fastest "
        "here, and keep the result beside the model for later starts",
    )
    processes: int = _option(
        1,
        _integer(1, 256),
        "processes that serve the port, each with all the models and limits; more than one is for machines "
        "with so many cores that one, which runs Python in one thread at a time, cannot feed them. A "
        "connection stays with one of them",
    )
    grace: float = _option(
        5.0,
        _SECONDS,
        "seconds to go on serving after SIGTERM while health says NOT_SERVING, for load balancers to notice; "
        "a second signal ends them",
    )
    drain: float = _option(
        30.0,
        _SECONDS,
        "seconds after the grace period for accepted calls to be answered; then they are given up, and the "
        "log says how many",
    )
    max_message_bytes: int = _option(
        8 * 65_536 * 16,  # the most boards, even as JSON
        _integer(1024, 2**31 - 1),
        "bytes of a message at most; gRPC refuses longer ones before they cost memory",
    )
    message_timeout: float = _option(
        10.0,
        _SECONDS,
        "seconds for a message to arrive once its call has begun; then the call ends with DEADLINE_EXCEEDED",
    )
    max_bytes_in_flight: int = _option(
        512 * 2**20,
        _integer(2048, 2**40),
        "bytes of messages that may be in flight over all protocols: half on their way in, each counted as "
        "--max-message-bytes, and half at work; beyond, calls wait or fail with RESOURCE_EXHAUSTED",
    )
    max_boards: int = _option(
        65_536,
        _integer(1, 100_000_000),
        "boards in a call at most; no call may hold more than the queue takes",
    )
    max_calls: int = _option(
        1024,
        _integer(1, 100_000),
        "calls at work at the same time; beyond, calls fail at once with RESOURCE_EXHAUSTED",
    )
    max_calls_per_connection: int = _option(
        256,
        _integer(1, 100_000),
        "calls and streams that one connection may have open; more of them wait in the client. A call that "
        "was begun and never finished holds memory, and no single client should hold it all",
    )
    max_streams: int = _option(
        256,
        _integer(0, 100_000),
        "streams open at the same time; each may hold one message that has not arrived whole",
    )
    max_streams_per_connection: int = _option(
        64,
        _integer(0, 100_000),
        "of these, streams of one connection, so that no single client takes them all",
    )
    stream_idle: float = _option(
        600.0,
        _SECONDS,
        "seconds after which a stream ends on which nothing comes and nothing is owed, for clients that left "
        "without a word; 0 lets it be",
    )
    connection_idle: float = _option(
        600.0,
        _SECONDS,
        "close a gRPC connection that has had no call for this many seconds; its client connects again when "
        "it calls; 0 disables",
    )
    transport: str = _option(
        "auto",
        _one_of("auto", "direct", "public"),
        "how gRPC is served: direct is fast and drives grpcio's core by private names; public takes only "
        "what grpcio promises to keep; auto is direct if calls to itself go well at start, else public",
    )
    tls_certificate: Path | None = _option(
        None,
        _PATH,
        "PEM file of the server's certificate and those above it; with it the port speaks TLS only. "
        "This file and the next two are read again when they change",
    )
    tls_key: Path | None = _option(None, _PATH, "PEM file of the certificate's private key, not encrypted")
    tls_client_ca: Path | None = _option(
        None,
        _PATH,
        "PEM file of the authorities for clients' certificates; with it nobody comes in without one",
    )
    tokens: Path | None = _option(
        None,
        _PATH,
        "file of bearer tokens, one a line, one of which every call must then bring; health checks need "
        "none. Read again when it changes",
    )
    admin_tokens: Path | None = _option(
        None,
        _PATH,
        "file of bearer tokens that may also load and unload models, which no others may once there is this "
        "file or that of --tokens",
    )
    admin: bool = _option(
        True, _SWITCH, "let models be loaded and unloaded by RPC; turn it off where SIGHUP is enough"
    )
    reflection: bool = _option(
        True, _SWITCH, "describe the API to tools such as grpcurl, which then need no .proto files"
    )
    log_format: str = _option(
        "text", _one_of("text", "json"), "text is for people; json is one object a line, for programs"
    )
    log_level: str = _option(
        "info",
        _one_of("debug", "info", "warning", "error"),
        "least weight of a line that is logged; debug has one for every call that fails",
    )
    tracing: bool = _option(
        False,
        _SWITCH,
        "send OpenTelemetry spans of every call, its time in the queue and its batches, to where the "
        "standard OTEL_EXPORTER_OTLP_* variables say; takes octofold[tracing]",
    )

    def effective(self) -> dict[str, str]:
        """Every flag's value as text, by the flag's name."""
        return {_key(option.name): _shown(getattr(self, option.name)) for option in fields(self)}


def read_config(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Config:
    """The configuration from command-line arguments (without the program's name), the environment, and the
    file that either of them names.

    Raises:
        ConfigError: a value is not allowed, two do not go together, or the file cannot be read.
        SystemExit: help was asked for (code 0), or an argument is unknown (code 2).
    """
    given = vars(_parser().parse_args(arguments))
    file = given.pop(FILE_OPTION) or environment.get(_variable(FILE_OPTION))
    from_file = _read_file(Path(file)) if file else {}

    values: dict[str, Any] = {}
    for option in fields(Config):
        name, kind, variable = option.name, option.metadata["kind"], _variable(option.name)
        if isinstance(given[name], bool):
            values[name] = given[name]
        elif given[name] is not None:
            values[name] = _parse(kind, _flag(name), given[name])
        elif variable in environment:
            values[name] = _parse(kind, variable, environment[variable])
        elif name in from_file:
            values[name] = _parse(kind, f"{file}: {_key(name)}", from_file[name])
    config = Config(**values)
    _check_together(config)
    return config


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Variables that look like the server's and are none, each with what it may have been meant to be."""
    known = {_variable(name) for name in (FILE_OPTION, *(option.name for option in fields(Config)))}
    ours = {name for name in environment if name.startswith(ENVIRONMENT_PREFIX)}
    return [name + _suggestion(name, known, 0.8) for name in sorted(ours - known - CLIENTS_VARIABLES)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="octofold-serve",
        description="Serve 2048 models over gRPC.",
        epilog="Every flag has an environment variable: --max-batch-size is OCTOFOLD_MAX_BATCH_SIZE.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {installed_version('octofold')}")
    parser.add_argument(
        _flag(FILE_OPTION), metavar="FILE", help="TOML file with any of these, such as: max-batch-size = 64"
    )
    for option in fields(Config):
        kind, default = option.metadata["kind"], _shown(option.default)
        notes = [] if kind is _SWITCH else [kind.allowed]
        notes += [f"default: {default}"] if default else []
        text = f"{option.metadata['help']} ({'; '.join(notes)})"
        if kind is _SWITCH:
            parser.add_argument(_flag(option.name), action=argparse.BooleanOptionalAction, help=text)
        else:
            parser.add_argument(_flag(option.name), metavar=option.name.upper(), help=text)
    return parser


def _read_file(path: Path) -> dict[str, str]:
    """The values of a configuration file as text, by the names of Config's fields."""
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    names = {_key(option.name): option.name for option in fields(Config)}
    values = {}
    for key, value in content.items():
        if key not in names:
            raise ConfigError(
                f"{path}: {key!r} is not a flag of octofold-serve without its dashes in front"
                + _suggestion(key, names)
            )
        if not isinstance(value, str | int | float):
            raise ConfigError(f"{path}: {key}: it takes one value, not {value!r}")
        values[names[key]] = _shown(value)
    return values


def _check_together(config: Config) -> None:
    for present, needed in (
        ("tls_certificate", "tls_key"),
        ("tls_key", "tls_certificate"),
        ("tls_client_ca", "tls_certificate"),
    ):
        if getattr(config, present) and not getattr(config, needed):
            raise ConfigError(f"{_flag(present)} is given without {_flag(needed)}; it takes both")
    if config.max_bytes_in_flight < 2 * config.max_message_bytes:
        raise ConfigError(
            f"{_flag('max_bytes_in_flight')}: {config.max_bytes_in_flight} is not enough for two messages of "
            f"{_flag('max_message_bytes')} ({config.max_message_bytes})"
        )


def _suggestion(wrong: str, known: Iterable[str], similarity: float = 0.6) -> str:
    near = get_close_matches(wrong, known, n=1, cutoff=similarity)
    return f"; did you mean {near[0]}?" if near else ""


def _key(name: str) -> str:
    return name.replace("_", "-")


def _flag(name: str) -> str:
    return f"--{_key(name)}"


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper()


def _shown(value: Any) -> str:
    """A value as `_parse` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _parse(kind: _Kind, source: str, text: str) -> Any:
    try:
        return kind.parse(text)
    except (ValueError, KeyError):
        raise ConfigError(f"{source}: {text!r} is not allowed; it takes {kind.allowed}") from None

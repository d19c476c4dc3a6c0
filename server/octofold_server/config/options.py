"""The options of the server: one frozen dataclass, from which the flags, their environment variables and help
texts are derived.

None of them is a secret: tokens and keys are in files, and these are the names of the files. Knows nothing
about what the values are used for.
"""

# ruff: noqa: RUF009 -- _option is dataclasses.field, with metadata

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from octofold_server.config.policies import VersionPolicies, parse_policies

__all__ = [
    "SWITCH",
    "Config",
    "ConfigError",
    "Kind",
    "check_together",
    "flag_of",
    "key_of",
    "shown",
    "variable_of",
]

ENVIRONMENT_PREFIX = "OCTOFOLD_"


class ConfigError(Exception):
    """An option that does not exist, or a value that is not allowed; the message names the flag, the variable
    or the file and its key, and what is allowed."""


@dataclass(frozen=True)
class Kind:
    """What a flag takes: `parse` raises ValueError for whatever `allowed` does not describe. In the help,
    `placeholder` stands for the value; where `is_plain`, nothing more need be said."""

    parse: Callable[[str], Any]
    allowed: str
    placeholder: str
    is_plain: bool = False


def _integer(lowest: int, highest: int) -> Kind:
    def parse(text: str) -> int:
        value = int(text)
        if not lowest <= value <= highest:
            raise ValueError
        return value

    return Kind(parse, f"an integer from {lowest} to {highest}", "N")


def _one_of(*choices: str) -> Kind:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError
        return text

    allowed = ", ".join(choices[:-1]) + f" or {choices[-1]}"
    return Kind(parse, allowed, "|".join(choices), is_plain=True)


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


_POLICIES = Kind(
    parse_policies,
    "all, latest:N, or versions such as 1,3; then ;MODEL=... for every model that differs",
    "RULE",
)
_TEXT = Kind(_text, "a name", "NAME", is_plain=True)
_PATH = Kind(_path, "a path", "PATH", is_plain=True)
_SECONDS = Kind(_seconds, "seconds from 0 to 86400", "SECONDS")
SWITCH = Kind(_switch, "true, false, 1 or 0", "", is_plain=True)


def _option(default: Any, kind: Kind, text: str) -> Any:
    return field(default=default, metadata={"kind": kind, "help": text})


@dataclass(frozen=True)
class Config:
    """How one server runs. Each field is a flag; its help says what for."""

    host: str = _option(
        "127.0.0.1", _TEXT, "address to listen on; 0.0.0.0 takes connections from other machines"
    )
    port: int = _option(50051, _integer(0, 65535), "gRPC port; 0 takes a free one")
    port_file: Path | None = _option(None, _PATH, "write the gRPC port to this file once the server is ready")
    rest_port: int | None = _option(
        None,
        _integer(0, 65535),
        "HTTP port for the Open Inference Protocol over REST, /metrics, /healthz and /readyz; 0 takes a "
        "free one; without this flag there is no HTTP",
    )
    rest_port_file: Path | None = _option(
        None, _PATH, "write the HTTP port to this file before --port-file is written"
    )
    ready_file: Path | None = _option(
        None,
        _PATH,
        "touch this file every two seconds while the server is ready, and remove it when it is not, for "
        "health checks that look at its age",
    )
    models: Path = _option(Path("models"), _PATH, "model repository: a folder of NAME/VERSION/card.json")
    versions: VersionPolicies = _option(
        VersionPolicies(),
        _POLICIES,
        'which versions to serve: all, the newest N, or those listed; "latest:1;cnn5=1,3" gives one model a '
        "rule of its own",
    )
    watch: float = _option(
        0.0,
        _SECONDS,
        "look for changes in the model repository every so many seconds, and load them; 0 waits for SIGHUP "
        "or a call",
    )
    default_model: str = _option(
        "", _TEXT, "model used when a request names none; not needed if there is only one"
    )
    device: str = _option(
        "auto", _one_of("auto", "cpu", "cuda"), "where models run; auto uses a GPU if onnxruntime finds one"
    )
    precision: str = _option(
        "auto",
        _one_of("auto", "fp32", "int8", "fp16"),  # as `octofold_game.model.PRECISIONS`, which loads numpy
        "which file of a model runs; auto takes int8 on a CPU with VNNI, fp16 on a GPU, fp32 otherwise",
    )
    max_batch_size: int = _option(
        0,
        _integer(0, 65_536),
        "maximum boards in a batch. 0 uses what --tune found. Without that, a GPU takes 1024 and a CPU 8 to "
        "32, measured when a model is loaded",
    )
    queue_capacity: int = _option(
        131_072,
        _integer(1, 100_000_000),
        "maximum boards that wait for a model, for each priority; further calls fail with RESOURCE_EXHAUSTED",
    )
    lanes: int = _option(
        0,
        _integer(0, 1024),
        "batches that run at the same time; 0 uses what --tune found, or else one for each CPU core, or one "
        "on a GPU",
    )
    threads: int = _option(
        0, _integer(0, 1024), "threads of each lane on a CPU; 0 uses what --tune found, or else one"
    )
    spinning: bool = _option(
        False,
        SWITCH,
        "let the threads of a lane keep their cores busy while they wait; only for a machine that does "
        "nothing else",
    )
    tf32: bool = _option(False, SWITCH, "let a GPU round float32 factors to 10 bits; faster and less exact")
    cuda_graphs: bool = _option(
        True, SWITCH, "record a GPU's work for each batch size and play it back, where all of it runs there"
    )
    tensorrt: Path | None = _option(
        None,
        _PATH,
        "run fp16 models with TensorRT, and keep its engines in this folder; building them takes minutes",
    )
    tune: bool = _option(
        False,
        SWITCH,
        "do not serve: measure which batch size, lanes and threads are fastest here, and store the result "
        "beside each model; takes about a minute a model",
    )
    processes: int = _option(
        1,
        _integer(1, 256),
        "number of processes that share the port, each with all models; for machines with more cores than "
        "one Python process can feed",
    )
    grace: float = _option(
        5.0,
        _SECONDS,
        "keep serving for this many seconds after SIGTERM or Ctrl-C, while health reports NOT_SERVING; a "
        "second signal ends the wait",
    )
    drain: float = _option(
        30.0, _SECONDS, "after the grace period, wait at most this many seconds for accepted calls to finish"
    )
    max_message_bytes: int = _option(
        8 * 65_536 * 16,  # the most boards, even as JSON
        _integer(1024, 2**31 - 1),
        "maximum bytes of a message",
    )
    message_timeout: float = _option(
        10.0,
        _SECONDS,
        "seconds for a message to arrive once its call has begun; then the call ends with DEADLINE_EXCEEDED; "
        "as long may a client take for the only reply of a call before the call is cut off",
    )
    max_bytes_in_flight: int = _option(
        512 * 2**20,
        _integer(2048, 2**40),
        "bytes of messages that may be in flight over all protocols: half on their way in, each counted as "
        "--max-message-bytes, and half at work; beyond, calls wait or fail with RESOURCE_EXHAUSTED",
    )
    max_boards: int = _option(65_536, _integer(1, 100_000_000), "maximum boards in a call")
    max_calls: int = _option(
        1024,
        _integer(1, 100_000),
        "maximum calls at the same time; further calls fail with RESOURCE_EXHAUSTED",
    )
    max_calls_per_connection: int = _option(
        256,
        _integer(1, 100_000),
        "maximum calls and streams open on one connection; further ones wait in the client",
    )
    max_streams: int = _option(
        256,
        _integer(0, 100_000),
        "maximum open streams; each may hold one message of --max-message-bytes that has not arrived whole, "
        "which gRPC does not show: as many bytes come on top of --max-bytes-in-flight",
    )
    max_streams_per_connection: int = _option(
        64, _integer(0, 100_000), "maximum open streams on one connection"
    )
    stream_idle: float = _option(
        600.0, _SECONDS, "close a stream that is idle for this many seconds; 0 disables"
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
        "certificate chain of the server (PEM); turns TLS on. This file and the next two are read again "
        "when they change",
    )
    tls_key: Path | None = _option(None, _PATH, "private key of the certificate (PEM, not encrypted)")
    tls_client_ca: Path | None = _option(
        None,
        _PATH,
        "CA certificates to trust (PEM); clients then need a certificate that one of these signed",
    )
    tokens: Path | None = _option(
        None,
        _PATH,
        "file of bearer tokens, one a line; every call then needs one, health checks excepted. Read again "
        "when it changes",
    )
    admin_tokens: Path | None = _option(
        None, _PATH, "file of bearer tokens that may also load and unload models; with it, no other token may"
    )
    admin: bool = _option(True, SWITCH, "allow clients to load and unload models")
    reflection: bool = _option(True, SWITCH, "describe the API to tools such as grpcurl")
    log_format: str = _option(
        "text", _one_of("text", "json"), "text is for people, json is one object a line"
    )
    log_level: str = _option(
        "info",
        _one_of("debug", "info", "warning", "error"),
        "minimum log level; debug logs every call that fails",
    )
    tracing: bool = _option(
        False,
        SWITCH,
        "send OpenTelemetry spans of calls and batches to the collector that the standard "
        "OTEL_EXPORTER_OTLP_* variables name",
    )

    def effective(self) -> dict[str, str]:
        """Every flag's value as text, by the flag's name."""
        return {key_of(option.name): shown(getattr(self, option.name)) for option in fields(self)}


def check_together(config: Config) -> None:
    """Raises `ConfigError` for options that do not go together."""
    for present, needed in (
        ("tls_certificate", "tls_key"),
        ("tls_key", "tls_certificate"),
        ("tls_client_ca", "tls_certificate"),
    ):
        if getattr(config, present) and not getattr(config, needed):
            raise ConfigError(f"{flag_of(present)} is given without {flag_of(needed)}; it takes both")
    if config.max_bytes_in_flight < 2 * config.max_message_bytes:
        raise ConfigError(
            f"{flag_of('max_bytes_in_flight')}: {config.max_bytes_in_flight} is not enough for two "
            f"messages of {flag_of('max_message_bytes')} ({config.max_message_bytes})"
        )


def key_of(name: str) -> str:
    """The name of an option in a file."""
    return name.replace("_", "-")


def flag_of(name: str) -> str:
    """The flag of an option."""
    return f"--{key_of(name)}"


def variable_of(name: str) -> str:
    """The environment variable of an option."""
    return ENVIRONMENT_PREFIX + name.upper()


def shown(value: Any) -> str:
    """A value as text, as an option's kind parses it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)

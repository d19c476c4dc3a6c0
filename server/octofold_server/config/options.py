"""The options of the server: one frozen dataclass, which defines flags, environment variables and help texts.

No option is a secret: tokens and keys are in files, and the options name the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from octofold_game.commands.options import File, Folder, Kind, Name, flag_of, number, option
from octofold_game.contract.results import RESULTS
from octofold_game.errors import OctofoldError
from octofold_proto.messages import LONGEST_SEARCH_US

from octofold_server.config.version_policies import VersionPolicies, parse_player_kinds, parse_policies

ENVIRONMENT_PREFIX = "OCTOFOLD_"
_DAY = 86_400

Seconds = Annotated[float, number(0, _DAY, " of seconds", "SECONDS")]
Policies = Annotated[
    VersionPolicies,
    Kind(
        parse_policies,
        "all, latest:N, or a list such as 1,3; for a model with its own rule, append ;MODEL=RULE",
        "RULE",
    ),
]
PlayerKinds = Annotated[
    tuple[str, ...], Kind(parse_player_kinds, "kinds of players, separated by commas, or none", "KIND,...")
]


class ConfigError(OctofoldError):
    """An option is unknown, a value is not allowed, or the file cannot be read.

    The message names the flag, the variable, or the file with its key, and what is allowed.
    """


@dataclass(frozen=True)
class Config:
    """The configuration of a server. Every field that `option` makes is a flag with a help text."""

    host: str = option(
        "127.0.0.1",
        "listen on this address; 0.0.0.0 means all interfaces over IPv4, :: means all over IPv4 and IPv6; "
        "unix:PATH is a Unix socket, which serves only gRPC",
        heading="Protocols",
    )
    port: int = option(50051, "gRPC port; 0 chooses a free port", 0, 65535)
    port_file: File | None = option(None, "write the gRPC port to this file once the server is ready")
    rest_port: int | None = option(
        None,
        "HTTP port for the page at /, the Open Inference Protocol over REST, /metrics, /healthz and "
        "/readyz; 0 chooses a free port; without this flag, HTTP is disabled",
        0,
        65535,
    )
    rest_port_file: File | None = option(
        None, "write the HTTP port to this file, before --port-file is written"
    )
    page: bool = option(
        True, "serve a web page at / of the HTTP port: play a game, ask models for moves, watch results"
    )
    results: Folder = option(
        RESULTS,
        "show the results of `octofold evaluate` in this folder on the page, to every caller",
    )
    transport: Literal["auto", "native", "direct"] = option(
        "auto",
        "gRPC transport: native is fastest, but it has no TLS and reads a whole message before it checks the "
        "size, so it is for trusted callers; direct uses the C core of grpcio; auto chooses native on "
        "loopback and on a Unix socket if a test call at the start succeeds, and direct otherwise",
    )
    models: Folder = option(
        Path("models"), "model repository: a folder of NAME/VERSION/card.json", heading="Models"
    )
    versions: Policies = option(
        VersionPolicies(),
        'versions to serve: all, latest:N (the newest N), or a list; "all;cnn5=1,3" gives cnn5 its own rule',
    )
    players: PlayerKinds | None = option(
        None,
        "kinds of players that may run and are loaded at the start, such as expectimax,perimeter; without "
        "this flag, octofold's own kinds may run, and each is loaded when a call first asks for it",
    )
    watch: Seconds = option(
        0.0,
        "check the model repository at this interval, and load what has changed; 0 loads changes only on "
        "SIGHUP or when a request loads a model",
    )
    default_model: Name = option(
        "",
        "model used when a request names none; without this flag, the only model that can be served at the "
        "start, or flagship if it is one of several",
    )
    device: Literal["auto", "cpu", "cuda"] = option(
        "auto", "device for models; auto uses a GPU if onnxruntime finds one", heading="Layout"
    )
    # These are `octofold_game.contract.model.PRECISIONS`; importing that module would load numpy.
    precision: Literal["auto", "fp32", "int8", "fp16"] = option(
        "auto",
        "precision; models without it fail. auto: int8 on a CPU with AVX2, fp16 on a GPU, else fp32",
    )
    max_batch_size: int = option(
        0,
        "maximum boards in a batch; 0 chooses 1024 for a player or on a GPU, and for a network on a CPU 8 to "
        "256 by timing the network when it is loaded",
        0,
        65_536,
    )
    lanes: int = option(
        0,
        "number of lanes of a model in each process; a lane runs one batch at a time; 0 chooses 1 for a "
        "network on a GPU, 2 for a player, and for a network on a CPU the number of cores divided by "
        "--threads and --processes, but at least 1",
        0,
        1024,
    )
    threads: int = option(
        0,
        "threads per lane on a CPU; 0 chooses 1 for a network, and for a player the number of cores divided "
        "by --processes",
        0,
        1024,
    )
    processes: int = option(
        1,
        "number of processes that share the port, each with all models; for machines with more cores than "
        "one Python process can use",
        1,
        256,
    )
    ready_file: File | None = option(
        None,
        "touch this file every two seconds while the server is ready, and remove it when it is not, for "
        "health checks that look at its age",
        heading="Start and stop",
    )
    grace: Seconds = option(
        5.0,
        "time to continue serving after SIGTERM or Ctrl-C, while health checks report NOT_SERVING; a second "
        "signal ends it early",
    )
    drain: Seconds = option(30.0, "maximum time to wait for accepted calls to finish, after the grace period")
    stop_with_input: bool = option(
        False,
        "stop, as on SIGTERM, when standard input ends; if standard input is a pipe from another program, "
        "the server thus stops even if that program is killed",
    )
    queue_capacity: int = option(
        131_072,
        "maximum boards in each queue of a model, which has one queue per priority, and one for long "
        "searches; further calls fail with RESOURCE_EXHAUSTED",
        1,
        100_000_000,
        heading="Limits",
    )
    max_search_time: float = option(
        LONGEST_SEARCH_US / 1e6,
        "maximum seconds of search per board that a call to a player may request",
        0.001,
        LONGEST_SEARCH_US / 1e6,
    )
    max_calls: int = option(
        1024, "maximum calls in progress; further calls fail with RESOURCE_EXHAUSTED", 1, 100_000
    )
    max_connection_age: Seconds = option(
        0.0,
        "close a gRPC connection after this many seconds, plus or minus 10% at random, so that clients "
        "reconnect and find new servers; 0 sets no maximum age",
        heading="Several servers",
    )
    tls_certificate: File | None = option(
        None,
        "certificate chain of the server (PEM); enables TLS. The server reads the files of all TLS options "
        "again when they change",
        heading="Security",
    )
    tls_key: File | None = option(None, "private key of the certificate (PEM, not encrypted)")
    tls_client_ca: File | None = option(
        None, "CA certificates to trust (PEM); clients then need a certificate signed by one of them"
    )
    tokens: File | None = option(
        None,
        "file of bearer tokens, one per line; every call except health checks then needs a token. The "
        "server reads the file again when it changes",
    )
    admin_tokens: File | None = option(
        None,
        "file of bearer tokens that also permit loading and unloading models; if only --tokens is set, no "
        "caller may do this",
    )
    admin: bool = option(True, "allow clients to load and unload models")
    reflection: bool = option(True, "serve gRPC reflection, which describes the API to tools such as grpcurl")
    log_format: Literal["text", "json"] = option(
        "text", "format of the log: text for people, or one JSON object per line", heading="Observation"
    )
    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", "minimum log level; debug logs every failed call"
    )
    tracing: bool = option(
        False,
        "send OpenTelemetry spans of calls and batches to the collector that the standard "
        "OTEL_EXPORTER_OTLP_* variables name; needs the extra `tracing`",
    )

    # These limits have no flags; tests set other values.
    max_boards: int = 65_536
    """Maximum boards in a call."""
    max_message_bytes: int = 8 * 65_536 * 16  # enough for `max_boards` boards as JSON
    """Maximum bytes of a message. Over gRPC, which packs boards, the limit is at most 128 KiB plus 32 bytes
    for each of `max_boards`."""
    message_timeout: float = 10.0
    """Time limit in seconds for the message of a call to arrive, and for a client to read the reply to a
    unary call. A late message ends the call with DEADLINE_EXCEEDED, an unread reply with UNAVAILABLE."""
    max_bytes_in_flight: int = 512 * 2**20
    """Maximum bytes of messages in flight over all protocols, at least twice the limit of one message. Half
    is for arriving messages, each counted with the maximum size, and half for calls in progress. Further
    calls wait or fail with RESOURCE_EXHAUSTED."""
    max_calls_per_connection: int = 256
    """Maximum calls and streams open on one connection; further calls wait in the client."""
    max_streams: int = 256
    """Maximum open streams. Each may hold an incomplete message until `stream_idle` closes the stream. gRPC
    does not report these bytes, so `max_bytes_in_flight` does not include them."""
    max_streams_per_connection: int = 64
    """Maximum open streams on one connection."""
    stream_idle: float = 600.0
    """Seconds after which an idle stream is closed."""
    connection_idle: float = 600.0
    """Seconds after which a gRPC connection without a call is closed. A client reconnects at its
    next call."""
    max_connection_age_grace: float = 30.0
    """Seconds that the calls of a connection have to finish after `max_connection_age`. Streams that are
    still open then end with UNAVAILABLE."""

    def unsupported_by_native(self) -> str:
        """Return the flag of a set option that the native transport does not support; "" for none."""
        needed = (self.tls_certificate, "tls_certificate"), (self.max_connection_age, "max_connection_age")
        return next((flag_of(name) for value, name in needed if value), "")


def check_together(config: Config) -> None:
    """Check options that depend on each other.

    Raises:
        ConfigError: two options contradict each other, or an option needs another one.
    """
    for present, needed in (
        ("tls_certificate", "tls_key"),
        ("tls_key", "tls_certificate"),
        ("tls_client_ca", "tls_certificate"),
    ):
        if getattr(config, present) and not getattr(config, needed):
            raise ConfigError(f"{flag_of(present)} needs {flag_of(needed)}")
    if config.transport == "native" and (unsupported := config.unsupported_by_native()):
        raise ConfigError(f"{flag_of('transport')} native does not support {unsupported}")
    if config.rest_port_file and config.rest_port is None:
        raise ConfigError(f"{flag_of('rest_port_file')} needs {flag_of('rest_port')}")
    if config.port == config.rest_port != 0:
        raise ConfigError(
            f"{flag_of('port')} and {flag_of('rest_port')} must not be the same, got {config.port} for both"
        )


def key_of(name: str) -> str:
    """Return the key of an option in a configuration file."""
    return name.replace("_", "-")


def variable_of(name: str) -> str:
    """Return the environment variable of an option."""
    return ENVIRONMENT_PREFIX + name.upper()

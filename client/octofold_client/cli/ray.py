"""`octofold ray`: places servers on the nodes of a Ray cluster, and tells their addresses."""

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from octofold_game.commands.options import File, Folder, Kind, argument, option
from octofold_game.commands.subcommands import Command
from octofold_game.system.files import write_text

from octofold_client.cli.arguments import CredentialFlags
from octofold_client.cli.json_output import JsonFlag, print_json
from octofold_client.cli.spreading import SERVICE
from octofold_client.errors import ClusterError, UsageError
from octofold_client.extras import needing
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_client.wording import counted, listed

if TYPE_CHECKING:  # an extra
    from octofold_client.ray.placement import ServicePlan

MOST_REPLICAS = 1000
CHOSEN_HERE = ("--host", "--port", "--port-file", "--models", "--tune")
"""Options of octofold-serve that each replica gets from the placement."""
KEYS = ("--tokens", "--tls-client-ca")
"""Options of octofold-serve with which it does not answer strangers."""

GRACE_SECONDS = "5"
"""`--grace` of the replicas, unless it follows --: LocalServer would not wait for clients to notice."""


def _name(text: str) -> str:
    if not text or not all(c.isalnum() or c in "._-" for c in text):
        raise ValueError
    return text


ServiceName = Annotated[str, Kind(_name, "letters, digits, '.', '_' and '-'", "NAME", is_plain=True)]


@dataclass(kw_only=True)
class ServiceFlags:
    """Which replicas of which cluster."""

    cluster: str = option(
        "auto",
        "address of the Ray cluster (default: the cluster of this machine)",
        metavar="HOST:PORT",
    )
    name: ServiceName = option(SERVICE, "name of the replicas")


@dataclass(kw_only=True)
class Options(CredentialFlags, ServiceFlags):
    """The options of `octofold ray serve`."""

    models: Folder = option(Path("models"), "model repository, in the same folder on every node")
    replicas: int = option(1, "number of replicas", 1, MOST_REPLICAS)
    cpus: float = option(
        1.0,
        "CPUs that a replica needs, as Ray counts them; it runs as many batches at a time",
        0,
        10_000,
    )
    gpus: float = option(0.0, "GPUs that a replica needs", 0, 64)
    wait: float = option(60.0, "time to wait for room in the cluster", 1, 86_400, metavar="SECONDS")
    open: bool = option(
        False,
        "listen on the address of the node, so that everyone who can reach it may call; without this flag, "
        "replicas do so only with --tokens or --tls-client-ca after --, and otherwise listen on 127.0.0.1",
    )
    address_file: File | None = option(None, "keep the addresses of the replicas in this file, one a line")
    options: list[str] = argument("OPTION", "options of octofold-serve, after --", words="*")


def serve(options: Options) -> None:
    """Place replicas, keep their number, and stop them after Ctrl-C.

    Raises:
        ClusterError: no cluster answers, it has no room, or a replica cannot start.
        EvaluationError: Ray is not installed.
    """
    _check_options(options)
    with needing("ray"):
        from octofold_client.ray import cluster
        from octofold_client.ray.placement import Placement
    plan = _plan(options)
    with cluster.connected(options.cluster):
        _check_machines(options, len(cluster.machines()))
        print(f"placing {counted(plan.replicas, 'replica')} on {cluster.room()}", file=sys.stderr)
        placed = Placement(
            plan,
            remark=lambda text: print(text, file=sys.stderr),
            on_change=functools.partial(_report, options.address_file),
        )
        try:
            with DeferredInterrupts() as interrupts:
                placed.start(interrupts.check)
                placed.run(interrupts.check)
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C, or another signal that ends a service
            print("stopping: the replicas finish their accepted calls", file=sys.stderr)
        finally:
            with DeferredInterrupts() as interrupts:  # a second Ctrl-C ends the wait
                placed.stop(interrupts.check)
            if options.address_file:
                options.address_file.unlink(missing_ok=True)


@dataclass(kw_only=True)
class AddressOptions(JsonFlag, ServiceFlags):
    """The options of `octofold ray addresses`."""


def print_addresses(options: AddressOptions) -> None:
    """Print the addresses of the replicas.

    Raises:
        ClusterError: no cluster answers, or no replica serves.
        EvaluationError: Ray is not installed.
    """
    with needing("ray"):
        from octofold_client.ray.cluster import connected
        from octofold_client.ray.placement import addresses
    with connected(options.cluster):
        found = addresses(options.name)
    if not found:
        raise ClusterError(f"no replica named {options.name} serves on the Ray cluster")
    if options.json:
        print_json({"addresses": found})
    else:
        print(",".join(found))


def _report(file: Path | None, addresses: Sequence[str]) -> None:
    if file:
        write_text(file, "".join(f"{address}\n" for address in addresses))
    if addresses:
        print(f"serving on {listed(addresses)}; Ctrl-C stops the replicas", file=sys.stderr)


def _check_options(options: Options) -> None:
    """End with an error if the options of octofold-serve contradict the placement."""
    given = _flags(options)
    if chosen := given.intersection(CHOSEN_HERE):
        raise UsageError(f"{listed(sorted(chosen))} cannot follow --: each replica gets its own")
    if "--tokens" in given and "--tls-certificate" not in given:
        raise UsageError(
            "--tokens needs --tls-certificate and --tls-key: a client sends no token to another machine in "
            "plaintext"
        )


def _is_open(options: Options) -> bool:
    """Whether replicas listen on the addresses of their nodes."""
    return bool(options.open or _flags(options).intersection(KEYS))


def _flags(options: Options) -> set[str]:
    return {word.partition("=")[0] for word in options.options}


def _check_machines(options: Options, machines: int) -> None:
    """Check that clients can connect to the replicas.

    Raises:
        ClusterError: they could not from another machine of the cluster.
    """
    if machines > 1 and not _is_open(options):
        raise ClusterError(
            f"the cluster has {machines} machines, and none could reach the 127.0.0.1 of another: "
            "give --tokens FILE or --tls-client-ca FILE after --, or --open if the network is trusted"
        )


def _plan(options: Options) -> "ServicePlan":
    """What to place."""
    from octofold_client.ray.placement import ServicePlan
    from octofold_client.ray.replica import Serving

    given = _flags(options)
    own = ["--grace", GRACE_SECONDS]
    if not options.gpus:
        own += [] if "--device" in given else ["--device", "cpu"]
        own += [] if given & {"--lanes", "--processes"} else ["--lanes", str(max(1, int(options.cpus)))]
    serving = Serving(
        options.models.absolute(),
        (*own, *options.options),
        _is_open(options),
        options.credential_files().absolute(),
    )
    return ServicePlan(
        options.name,
        serving,
        options.replicas,
        cpus=options.cpus,
        gpus=options.gpus,
        room_seconds=options.wait,
    )


COMMAND = Command(
    "ray",
    "place servers on a Ray cluster",
    "Places servers on the nodes of a Ray cluster. Clients connect to them directly.",
    subcommands=(
        Command(
            "serve",
            "run octofold-serve on the nodes, until Ctrl-C",
            "Runs a number of octofold-serve processes on the nodes of a Ray cluster until Ctrl-C, and "
            "replaces those that end or whose node dies. Every node needs Octofold with its server, and the "
            "models. What follows -- goes to octofold-serve.",
            Options,
            serve,
            usage="octofold ray serve [--FLAG VALUE ...] [-- OPTIONS OF octofold-serve]",
        ),
        Command(
            "addresses",
            "print the addresses of the replicas, for --target",
            "Prints the addresses of the replicas that serve, separated by commas as --target wants them. "
            "The exit code is 1 if no replica serves.",
            AddressOptions,
            print_addresses,
        ),
    ),
)

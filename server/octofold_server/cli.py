"""The command `octofold-serve`: reads the configuration, sets up the log, runs the server.

A failure prints one line on standard error. The exit code is 1, 2 for a wrong configuration, or 130 for
Ctrl-C before the server handles signals.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from octofold_game.commands.extras import install_command

from octofold_server.system.logs import set_up_log
from octofold_server.system.native_log import ensure_standard_error
from octofold_server.system.signals import hold_hangups, release_hangups

if TYPE_CHECKING:
    from octofold_server.config.options import Config
    from octofold_server.process.shared_service import ProcessSlot

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code."""
    hold_hangups()
    # Imported late, because a SIGHUP ends the process until `hold_hangups` has been called.
    from octofold_server.config.options import ConfigError
    from octofold_server.config.reading import read_config, unknown_variables

    ensure_standard_error()
    try:
        config = read_config(sys.argv[1:] if arguments is None else arguments)
    except SystemExit:  # the help, the version or the configuration has been printed
        release_hangups()
        raise
    except ConfigError as error:
        release_hangups()
        return _fail(error, 2)
    set_up_log(config.log_format, config.log_level)
    for variable in unknown_variables():
        _log.warning("%s is not a variable of octofold-serve and is ignored", variable)
    if config.stop_with_input:
        threading.Thread(target=_end_with_input, name="input", daemon=True).start()
    return run(config) if config.processes == 1 else _run_together(config)


def _run_together(config: Config) -> int:
    # Imported late, for the reason given in `run`.
    from octofold_server.process.supervisor import serve_together
    from octofold_server.system.sockets import StartupError

    try:
        return serve_together(config, run)
    except StartupError as error:
        return _fail(error, 1, config.log_format)


def run(config: Config, slot: ProcessSlot | None = None) -> int:
    """Serve in this process until SIGTERM or SIGINT, and return the exit code.

    `slot` is the place of this process among the processes on the port; None if there is only one process.
    """
    faulthandler.enable()  # prints the Python stack if a native library crashes

    # Imported late, so that --help does not wait half a second for onnxruntime and gRPC.
    try:
        from octofold_proto.errors import ModelError

        from octofold_server.process.lifecycle import ServingError, serve
        from octofold_server.system.sockets import StartupError
    except ModuleNotFoundError as error:  # the base installation lacks the server's dependencies
        missing = f"{error.name} is missing; install it with: {install_command('server')}"
        return _fail(missing, 1, config.log_format)

    try:
        serve(config, slot=slot)
    except KeyboardInterrupt:  # Ctrl-C before the server handles signals
        return _fail("interrupted", 130)
    except ServingError:  # already logged
        return 1
    except (StartupError, ModelError) as error:
        return _fail(error, 1, config.log_format)
    return 0


def _end_with_input() -> None:
    """Send SIGTERM to this process when standard input ends or was never open."""
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def _fail(error: Exception | str, code: int, log_format: str = "text") -> int:
    if log_format == "json":  # programs that read the log expect a JSON object on every line
        _log.critical("%s", error)
    else:
        print(f"octofold-serve: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

"""Progress messages, and `quiet`, which hides the output of libraries that report errors as exceptions."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

Report = Callable[[str], None]
"""A function that receives progress messages, one line each."""


def silent(_line: str) -> None:
    """Discard a progress message: a `Report` that prints nothing."""


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress standard output, standard error, warnings and log lines while the `with` block runs."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)

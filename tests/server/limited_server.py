"""octofold-serve with other limits; the first argument is a JSON object of fields of `Config`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from octofold_server.cli import main
from octofold_server.config import reading
from octofold_server.config.options import Config

read_config = reading.read_config


def read_limited(arguments: Sequence[str]) -> Config:
    return replace(read_config(arguments), **json.loads(sys.argv[1]))


if __name__ == "__main__":
    reading.read_config = read_limited  # type: ignore[assignment]
    sys.exit(main(sys.argv[2:]))

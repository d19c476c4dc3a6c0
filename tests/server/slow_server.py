"""octofold-serve with one lane and a slow backend; the first argument is the number of seconds per board."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "shared"))  # where support is

from octofold_server.config.reading import read_config
from octofold_server.process.lifecycle import serve
from octofold_server.system.logs import set_up_log
from support.fakes import SlowBackend

config = read_config([*sys.argv[2:], "--lanes", "1"])
set_up_log(config.log_format, config.log_level)
serve(config, lambda *_: [SlowBackend(float(sys.argv[1]))])

"""How much memory this process may use."""

from __future__ import annotations

import os
from pathlib import Path

CONTROL_GROUP = Path("/sys/fs/cgroup/memory.max")


def usable_memory(limit: Path = CONTROL_GROUP) -> int:
    """The memory of the machine in bytes, or the limit of the control group (v2) if that is less."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(memory, int(limit.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no control group, or "max"
        return memory

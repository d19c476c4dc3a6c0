"""The name of this machine's processor, for the records of measurements."""

from pathlib import Path


def cpu_name(otherwise: str = "CPU", cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model name of the CPU, or `otherwise` if Linux does not report it."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or otherwise

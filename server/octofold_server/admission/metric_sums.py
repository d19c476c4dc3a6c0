"""Sums of several processes' metrics, and the counters of a process that has ended.

The text format is the one that `octofold_server.admission.metrics` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

_Combine = Callable[[Iterable[float]], float]

_NO_SUMS: dict[str, _Combine] = {
    "octofold_ready": min,  # the service is ready if all processes are
    "octofold_build_info": max,  # always 1
    "octofold_model_info": max,
}


class _Family:
    """The comments of one metric family, and its samples by name and labels."""

    def __init__(self) -> None:
        self.comments: list[str] = []
        self.samples: dict[str, list[float]] = {}


def summed(pages: Sequence[str]) -> str:
    """Combine the pages of several processes, in the order in which families and samples first appear."""
    families: dict[str, _Family] = {}
    for page in pages:
        name = ""
        seen = False  # whether an earlier page had this family's comments
        for line in page.splitlines():
            if line.startswith("#"):
                if line.startswith("# HELP "):
                    name = line.split(" ", 3)[2]
                    seen = name in families
                family = families.setdefault(name, _Family())
                if not seen:
                    family.comments.append(line)
                continue
            sample, _, value = line.rpartition(" ")
            number = float(value) if any(mark in value for mark in ".einf") else int(value)
            families[name].samples.setdefault(sample, []).append(number)
    lines: list[str] = []
    for name, family in families.items():
        combine = _NO_SUMS.get(name, sum)
        lines += family.comments
        lines += [f"{sample} {combine(values)!r}" for sample, values in family.samples.items()]
    return "\n".join(lines) + "\n"


def counters_of(page: str) -> str:
    """The counters and histograms of a page: the part that stays valid after its process has ended."""
    kept: list[str] = []
    comments: list[str] = []
    counts = False
    for line in page.splitlines():
        if line.startswith("# HELP "):
            comments, counts = [line], False
        elif line.startswith("# TYPE "):
            counts = line.rpartition(" ")[2] in ("counter", "histogram")
            kept += [*comments, line] if counts else []
        elif counts:
            kept.append(line)
    return "".join(f"{line}\n" for line in kept)

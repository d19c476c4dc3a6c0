"""Sums of several processes' metrics, and the counters of a process that has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from octofold_server.telemetry.metric_families import Family, Sample, parse, write

_Combine = Callable[[Iterable[float]], float]

_NO_SUMS: dict[str, _Combine] = {
    "octofold_ready": max,  # a process that is starting has no port yet: clients reach those that are ready
    "octofold_build_info": max,  # always 1
    "octofold_model_info": max,
}


def summed(pages: Sequence[str]) -> str:
    """Combine the pages of several processes, in the order in which families and samples first appear."""
    families: dict[str, Family] = {}
    samples: dict[str, dict[str, list[Sample]]] = {}
    for page in pages:
        for family in parse(page):
            families.setdefault(family.name, family)
            collected = samples.setdefault(family.name, {})
            for name, sample in family.samples.items():
                collected.setdefault(name, []).append(sample)
    for name, family in families.items():
        combine = _NO_SUMS.get(name, sum)
        family.samples = {
            sample: Sample(combine(one.value for one in found), _newest(found))
            for sample, found in samples[name].items()
        }
    return write(families.values())


def counters_of(page: str) -> str:
    """The counters and histograms of a page: the part that stays valid after its process has ended."""
    return write(family for family in parse(page) if family.kind in ("counter", "histogram"))


def _newest(samples: Sequence[Sample]) -> str:
    """The newest exemplar, which ends with its time; empty if there is none."""
    exemplars = [sample.exemplar for sample in samples if sample.exemplar]
    return max(exemplars, key=lambda exemplar: float(exemplar.rpartition(" ")[2]), default="")

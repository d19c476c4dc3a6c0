"""A page of metrics as families of samples and back, and the sums of several processes' pages.

The page that processes exchange is Prometheus' text format, in which samples of histograms may also have
exemplars, as in OpenMetrics. Callers get one of the two formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

PLAIN = "text/plain"
OPENMETRICS = "application/openmetrics-text"

PLAIN_TYPE = f"{PLAIN}; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"

_EXEMPLAR = " # "
_BOUND = re.compile(r'le="([^"]*)"')


class Sample(NamedTuple):
    """A number, and an example of what it counts, as the page has it."""

    value: int | float
    exemplar: str = ""


@dataclass
class Family:
    """All samples of one metric, by name and labels as the page has them."""

    name: str
    text: str
    kind: str = "untyped"
    samples: dict[str, Sample] = field(default_factory=dict)


def parse(page: str) -> list[Family]:
    """The families of a page that `octofold_server.telemetry.metrics` has written."""
    families: list[Family] = []
    for line in page.splitlines():
        if line.startswith("# HELP "):
            _, _, name, text = line.split(" ", 3)
            families.append(Family(name, text))
        elif line.startswith("# TYPE "):
            families[-1].kind = line.rpartition(" ")[2]
        else:
            line, _, exemplar = line.partition(_EXEMPLAR)
            name, _, value = line.rpartition(" ")
            number = float(value) if any(mark in value for mark in ".einf") else int(value)
            families[-1].samples[name] = Sample(number, exemplar)
    return families


def write(families: Iterable[Family]) -> str:
    """The page of families, with exemplars."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {family.text}", f"# TYPE {family.name} {family.kind}"]
        lines += _lines(family)
    return "".join(f"{line}\n" for line in lines)


def plain(page: str) -> str:
    """A page in Prometheus' text format, which has no exemplars."""
    if _EXEMPLAR not in page:
        return page
    return "".join(f"{line.partition(_EXEMPLAR)[0]}\n" for line in page.splitlines())


def openmetrics(page: str) -> str:
    """A page in the format of OpenMetrics 1.0, with exemplars.

    Its counters end in `_total`. Triton's do not, so their type is unknown there.
    """
    lines: list[str] = []
    for family in parse(page):
        name, kind = family.name, family.kind
        if kind == "counter":
            name, kind = (name.removesuffix("_total"), kind) if name.endswith("_total") else (name, "unknown")
        lines += [f"# HELP {name} {family.text}", f"# TYPE {name} {kind}"]
        lines += (_BOUND.sub(_canonical, line) for line in _lines(family))
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def prefers_openmetrics(accept: str) -> bool:
    """Whether an Accept header names OpenMetrics, and does not prefer plain text."""
    weights = {PLAIN: 0.0, OPENMETRICS: 0.0}
    for accepted in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in accepted.split(";"))
        if kind not in weights:
            continue
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        try:
            weights[kind] = max(weights[kind], float(weight))
        except ValueError:
            continue
    return weights[OPENMETRICS] > 0 and weights[OPENMETRICS] >= weights[PLAIN]


def _lines(family: Family) -> Iterable[str]:
    for name, (value, exemplar) in family.samples.items():
        yield f"{name} {value!r}{_EXEMPLAR}{exemplar}" if exemplar else f"{name} {value!r}"


def _canonical(bound: re.Match[str]) -> str:
    """OpenMetrics writes 1.0 for 1."""
    return bound[0] if bound[1] == "+Inf" else f'le="{float(bound[1])!r}"'


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

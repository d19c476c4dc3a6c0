"""The rows of the published tables of supervised networks, with their figures over 1,000 games each.

Kondo, "Training CNN Players Considering Board Symmetry in Game 2048", tables 1 to 4; Maciszewska, Pilat and
Sarna's report of 2025, tables 2 and 3. All these networks learned from 6 x 10^8 moves of n-tuple players.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from octofold_training.networks.architectures import Architecture

TILES = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""The largest tiles by which the tables count games. The first count includes games with smaller tiles."""


@dataclass(frozen=True)
class Figures:
    """Published figures of a network, on one view or on eight."""

    average: float
    best: int
    reaches_2048: float
    """Share of the games that reach 2048."""
    largest: tuple[int, ...] = ()
    """Number of 1,000 games with each of `TILES` as the largest tile; empty if not published."""


@dataclass(frozen=True)
class PublishedRow:
    """A network of a paper, with its published figures."""

    name: str
    paper: str
    architecture: Architecture
    published: dict[int, Figures] = field(default_factory=dict)
    """Published figures, keyed by the number of views, 1 or 8."""

    @property
    def main_views(self) -> int:
        """Number of views of the paper's main result."""
        return 1 if self.architecture["kind"] == "symmetric_cnn" else 8


_DEPTHS = {
    2: (436, Figures(25_669, 175_628, 0.456)),
    3: (312, Figures(69_840, 332_868, 0.794)),
    4: (256, Figures(80_284, 343_496, 0.833)),
    5: (222, Figures(86_203, 386_972, 0.865)),
    6: (200, Figures(83_791, 387_376, 0.835)),
    7: (182, Figures(79_812, 401_912, 0.831)),
    8: (168, Figures(74_787, 363_916, 0.811)),
    9: (158, Figures(68_129, 358_736, 0.759)),
}
"""Kondo's tables 1 and 2: channels, and figures on eight views, keyed by number of convolutions."""
_ONE_BOARD = Figures(24_105, 182_296, 0.358)
"""Kondo's figures on one view for the network with 5 convolutions."""

_SYMMETRIC = {
    100: (Figures(43_552, 331_748, 0.547), Figures(45_710, 330_756, 0.555)),
    200: (Figures(80_355, 333_848, 0.727), Figures(86_062, 366_504, 0.719)),
    300: (Figures(85_548, 386_744, 0.722), Figures(93_964, 405_600, 0.805)),
    400: (Figures(119_637, 533_624, 0.807), Figures(109_493, 509_284, 0.773)),
}
"""Kondo's tables 3 and 4: figures on one view and on eight views, keyed by number of channels."""

_REPORT: dict[str, tuple[Architecture, Figures]] = {
    "CNN4": (
        {"kind": "padded_cnn", "layers": 4, "channels": 256, "padding": "left_above"},
        Figures(82_657.752, 342_928, 0.856, (38, 44, 62, 183, 391, 271, 11, 0)),
    ),
    "CNN5": (
        {"kind": "padded_cnn", "layers": 5, "channels": 222, "padding": "left_above"},
        Figures(85_494.56, 374_528, 0.864, (32, 31, 73, 174, 395, 279, 16, 0)),
    ),
    "CNN5_sym": (
        {"kind": "padded_cnn", "layers": 5, "channels": 222, "padding": "around"},
        Figures(67_870.68, 330_528, 0.761, (95, 65, 79, 163, 414, 176, 8, 0)),
    ),
    "MLP4": (
        {"kind": "mlp", "dense": [160, 1024, 600]},
        Figures(31_339.144, 298_908, 0.409, (299, 136, 156, 176, 174, 57, 2, 0)),
    ),
    "MLP5": (
        {"kind": "mlp", "dense": [512, 1024, 2048, 512]},
        Figures(46_047.164, 296_492, 0.485, (320, 93, 102, 123, 224, 132, 6, 0)),
    ),
}
"""The report's tables 2 and 3: the networks, and their figures on eight views."""


def _rows() -> Iterator[PublishedRow]:
    for name, (architecture, figures) in _REPORT.items():
        yield PublishedRow(name, "report", {**architecture, "exponents": 16}, {8: figures})
    for layers, (channels, figures) in _DEPTHS.items():
        published = {8: figures} | ({1: _ONE_BOARD} if layers == 5 else {})
        architecture = {"kind": "cnn", "layers": layers, "channels": channels, "exponents": 16}
        yield PublishedRow(f"cnn-{layers}", "Kondo", architecture, published)
    for channels, (one, eight) in _SYMMETRIC.items():
        architecture = {"kind": "symmetric_cnn", "layers": 5, "channels": channels, "exponents": 16}
        yield PublishedRow(f"symmetric-{channels}", "Kondo", architecture, {1: one, 8: eight})


ROWS: dict[str, PublishedRow] = {row.name: row for row in _rows()}
"""All networks, keyed by name."""

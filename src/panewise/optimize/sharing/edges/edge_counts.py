"""The number of edges that a set of windows has per unit of its axis, on which every cost of sharing depends.

The edges of a window are one or two residue classes, (slide, phase): `classes_of`. The edges of a set of windows are
the union of these classes, so a caller unites frozensets and calls `edge_rate`. With panes every window has its own
panes, and all are marked (Shein and Chrysanthis 2020, section 3.1). These are at most as many edges as with the one
length of pane for all windows that `slicing.panes` gives.

`edge_rate` first drops classes that lie in others and divides by common factors. The rest falls into parts without
common points. Each part is counted by one of these methods:

    bit_set     any classes with a period of up to 2 ** 24 points; marks the points
    f1          classes with a common point, up to 4,096 terms; inclusion and exclusion
    residues    any classes; exact within a bounded amount of work, otherwise an estimate with an error bound
    auto        bit_set for periods of up to 8,192 points; for longer ones formulas for one and two classes, f1 for a
                few with a common point, residues for all others

All exact methods agree. The rates of the last COUNTS_KEPT sets of up to CLASSES_MAX_KEPT classes are cached. So are the
counts of parts, divided by common factors and moved to 0, so that 2 and 3 seconds, and 4 and 6 minutes, have one entry.
Cost: 5 to 30 microseconds for up to 20 windows whose slides are factors of one small number, 0.3 if cached,
milliseconds for dozens of slides with few common factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import gcd, lcm

from panewise.optimize.sharing.edges import bit_set, f1, residues
from panewise.optimize.sharing.edges.residue_classes import Class, Classes, Count, parts, reduced
from panewise.slicing import cutty, pairs, panes
from panewise.slicing.pairs import Cadence

__all__ = ["EdgeRate", "Slicing", "classes_of", "edge_rate", "reduced"]

COUNTS_KEPT = 1 << 14
CLASSES_MAX_KEPT = 32
# By measurement, F1 takes half the time of residues for 5 slides without common factors, and twice the time for 10.
_FEW_FOR_F1 = 6


class Slicing(Enum):
    """Where slices are cut: the modules of `panewise.slicing`."""

    PANES = "panes"
    PAIRS = "pairs"
    CUTTY = "cutty"


@dataclass(frozen=True, slots=True)
class EdgeRate:
    """`edges` in every `period` of the axis. If not `exact`, `per_unit` may be wrong by `bound` (see `sampled`)."""

    edges: int
    period: int
    exact: bool = True
    bound: float = 0.0

    @property
    def per_unit(self) -> float:
        """Edges per unit of the axis: per microsecond, or per row."""
        return self.edges / self.period


_EDGE_CLASSES = {
    Slicing.PANES: panes.edge_classes,
    Slicing.PAIRS: pairs.edge_classes,
    Slicing.CUTTY: cutty.edge_classes,
}


@lru_cache(maxsize=1 << 16)
def classes_of(cadence: Cadence, slicing: Slicing) -> frozenset[Class]:
    """The residue classes of one window's edges. An unbounded window has none with cutty slicing.

    >>> sorted(classes_of(Cadence(5, 3), Slicing.PAIRS))
    [(3, 0), (3, 1)]
    """
    slides, phases = _EDGE_CLASSES[slicing]((cadence,))
    return frozenset(zip(slides.tolist(), phases.tolist(), strict=True))


def edge_rate(classes: Iterable[Class], method: str = "auto") -> EdgeRate:
    """The rate of a union of residue classes. ValueError if the method does not apply.

    >>> edge_rate([(2, 0), (3, 0)])
    EdgeRate(edges=4, period=6, exact=True, bound=0.0)
    >>> edge_rate([(2_000_000, 500_000), (4_000_000, 1_000_000)]).per_unit
    7.5e-07
    """
    if method not in _METHODS:
        raise ValueError(f"no method {method!r} of counting edges; there are {', '.join(_METHODS)}")
    held = frozenset(classes)
    return _kept_rate(held, method) if len(held) <= CLASSES_MAX_KEPT else _rate(held, method)


def _rate(classes: frozenset[Class], method: str) -> EdgeRate:
    slides = {slide for slide, _ in classes}
    if not slides:
        return EdgeRate(0, 1)
    period = lcm(*slides)
    factor = gcd(*slides)
    if method == "auto" and period // factor <= bit_set.PERIOD_MAX_PACKED:
        return EdgeRate(bit_set.marked_apart(classes, factor, period), period)
    edges, bound = 0, 0.0
    for factor, part in parts(reduced(classes)):
        counted = _kept_count(part, method) if len(part) <= CLASSES_MAX_KEPT else _METHODS[method](part)
        edges += counted.edges * (period // (counted.period * factor))
        bound += counted.bound / factor
    return EdgeRate(edges, period, bound == 0, bound)


def _auto(part: Classes) -> Count:
    if len(part) == 1:
        return Count(1, part[0][0])
    if len(part) == 2:
        free, period = residues.free_of_two(part)
        return Count(period - free, period)
    period = lcm(*(slide for slide, _ in part))
    if period <= bit_set.PERIOD_MAX_PACKED:
        return Count(bit_set.marked(part, period), period)
    if len(part) <= _FEW_FOR_F1 and f1.meet(part):
        return f1.count(part)
    return residues.count(part)


_METHODS: dict[str, Callable[[Classes], Count]] = {
    "auto": _auto,
    "bit_set": bit_set.count,
    "f1": f1.count,
    "residues": residues.count,
}


@lru_cache(maxsize=COUNTS_KEPT)
def _kept_count(part: Classes, method: str) -> Count:
    return _METHODS[method](part)


@lru_cache(maxsize=COUNTS_KEPT)
def _kept_rate(classes: frozenset[Class], method: str) -> EdgeRate:
    return _rate(classes, method)

"""Roll-up: the partials of a query by `a` are those of a query by `a, b`, merged over `b`.

Host and guest read the same stream with the same selection (the caller brings together what does); the guest's keys
are among the host's as expressions, its states among the host's states, and the states combine in any order, because
rows of a group lie in several groups of the host. A state that the host does not keep is no reason to add it there: its
rows would be folded all the same.

    rows --fold--> by a, b, c --merge--> by a, b --merge--> by a        per slice: rows, groups(a, b, c), groups(a, b)

A roll-up costs the host's groups per slice, folding costs the rows per slice. Whether a host is itself folded or
rolled up does not change what it costs to read, so the best host of each grouping alone is the best of all: the one
with the fewest groups. Cost of the choice: one comparison per pair of groupings. Implements the roll-up that Golab
2006, section 8.3, leaves to "new rules".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from panewise.aggregates.algebra import Algebra
from panewise.language.expressions import Expression
from panewise.plan.canonical import canonical


@dataclass(frozen=True)
class Grouping:
    """What one query, or several alike, groups by; `groups` is how many a slice holds, measured or estimated."""

    keys: tuple[Expression, ...]
    states: frozenset[Hashable]
    groups: float
    combines: bool = True


@dataclass(frozen=True)
class RollUp:
    """Where a grouping's partials come from: `host` is a position among the groupings, None where rows are folded.

    `places[i]` is the position among the host's keys of the grouping's key i.
    """

    host: int | None
    cost: float
    places: tuple[int, ...] = ()


def combines(algebra: Algebra) -> bool:
    """Whether partials of different groups may be merged, in whatever order they come."""
    return algebra.associative and algebra.commutative


def estimated_groups(key_counts: Sequence[float], rows: float) -> float:
    """Groups in a slice of so many rows, if keys were independent: distinct draws from the product of the counts.

    >>> round(estimated_groups([10.0, 10.0], 100.0), 1)
    63.4
    """
    possible = 1.0
    for count in key_counts:
        possible *= max(count, 1.0)
    if possible <= 1.0:
        return min(1.0, rows)
    return float(min(rows, possible * (1.0 - (1.0 - 1.0 / possible) ** rows)))


def may_roll_up(guest: Grouping, host: Grouping) -> bool:
    """Whether the host's partials hold all that the guest needs."""
    return guest.combines and guest.states <= host.states and _names(guest) <= _names(host)


def finest(groupings: Sequence[Grouping], rows: float) -> list[RollUp]:
    """For each grouping the cheapest host to roll up from, or folding where no host has fewer groups than rows.

    `rows` is the number of rows in a slice. Groupings by the same keys never host each other in a circle: of equals the
    first is the host.
    """
    names = [_names(grouping) for grouping in groupings]
    ordered = [tuple(map(key_name, grouping.keys)) for grouping in groupings]
    chosen = []
    for position, guest in enumerate(groupings):
        best = RollUp(None, rows)
        for other, host in enumerate(groupings):
            if other == position or not guest.combines or not names[position] <= names[other]:
                continue
            if not guest.states <= host.states or not _before(host, other, guest, position, names):
                continue
            if host.groups < best.cost:
                places = tuple(ordered[other].index(name) for name in ordered[position])
                best = RollUp(other, host.groups, places)
        chosen.append(best)
    return chosen


def _before(host: Grouping, other: int, guest: Grouping, position: int, names: list[frozenset[str]]) -> bool:
    """Whether the host comes first in the one order that keeps roll-ups free of circles: more keys, states, age."""
    if names[other] != names[position]:
        return True
    return host.states != guest.states or other < position


def key_name(key: Expression) -> str:
    """Equal for keys that mean the same."""
    return repr(canonical(key))


def _names(grouping: Grouping) -> frozenset[str]:
    return frozenset(map(key_name, grouping.keys))

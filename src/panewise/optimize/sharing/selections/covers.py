"""Covers: finds the states of one selection from the states that are kept for others.

A selection needs no states of its own if its rows are exactly one of these:

    a disjoint cover       the union of kept selections without common rows      any state that combines
    a cover                the union of kept selections                          states that repeated rows do not change
    a disjoint supercover  a kept selection minus a disjoint cover of the rest   states that can be subtracted exactly

Invariant: for every possible row, including NULLs and NaN, the union of the added minus the subtracted selections is
the wanted one. The added are disjoint unless the state is duplicate-insensitive. The subtracted are disjoint and within
the added. A cover has at most 64 parts, because each is merged at every slice, and too many cost more than folding.

Cost: parts are looked up by subject and constant. The fewest parts within (or around) the wanted selection are searched
by branch and bound on region masks, in at most 2,000 steps, largest parts first, so the result is at least as good as a
greedy one. Subtraction is tried from the 8 selections around the wanted one that contain the fewest others. In Golab
2006, section 8.3.3, terms must match literally; here it is enough that the rows are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from panewise.aggregates.algebra import Algebra
from panewise.optimize.sharing.selections.regions import region_masks
from panewise.optimize.sharing.selections.selections import EVERY_ROW, NO_ROW, Selection, Subject, disjoint, implies
from panewise.optimize.sharing.selections.value_sets import Cut

PARTS_MAX = 64
STEPS_MAX = 2_000
WHOLES_MAX = 8


@dataclass(frozen=True)
class Cover:
    """The positions of the kept selections whose states are merged, and of those whose states are then subtracted."""

    added: tuple[int, ...]
    subtracted: tuple[int, ...] = ()

    @property
    def parts(self) -> int:
        return len(self.added) + len(self.subtracted)


@dataclass(frozen=True)
class KeptSelection:
    """A selection with states of its own."""

    position: int


@dataclass(frozen=True)
class Derived:
    """A selection that is answered from the states of kept ones. The cover has positions among the wanted ones."""

    position: int
    cover: Cover


def find_cover(
    wanted: Selection, kept: Sequence[Selection], *, invertible: bool, duplicate_insensitive: bool
) -> Cover | None:
    """The cover with the fewest parts that the search finds, or None. A selection without rows has the empty cover."""
    family = _Family([*kept, wanted])
    return family.cover(len(kept), lambda _: True, invertible, duplicate_insensitive)


def plan_selections(wanted: Sequence[Selection], algebra: Algebra) -> list[KeptSelection | Derived]:
    """For each selection of a family, whether its states are folded or derived, so that as few as possible are folded.

    From the narrowest to the widest, each selection that is a union of others is derived. A union of derived parts is
    also a union of the parts that these are derived from. So only selections that are no union of others are folded,
    which is the least number (within the limits of the search). Differences would save nothing: if `whole - rest` is
    wanted, `whole` is the union of the two and already derived. A state that depends on the order of rows is only
    shared by equal selections, because merging parts would reorder rows.
    """
    first: dict[Selection, int] = {}
    for position, selection in enumerate(wanted):
        first.setdefault(selection, position)
    family = _Family(list(first))
    covers: dict[int, Cover] = {}
    used: set[int] = set()
    parts_max = PARTS_MAX if algebra.commutative else 1
    repeated = duplicate_insensitive(algebra)
    for member in sorted(range(len(first)), key=lambda member: (len(family.inside(member)), member)):
        if member not in used:
            cover = family.cover(member, lambda part: part not in covers, False, repeated, parts_max)
            if cover is not None:
                covers[member] = cover
                used.update(cover.added)
    return _outcome(wanted, first, covers)


def duplicate_insensitive(algebra: Algebra) -> bool:
    """Whether repeated rows do not change the state. A state that selects one of its inputs selects it again."""
    return algebra.selective and algebra.commutative and algebra.associative


def _outcome(
    wanted: Sequence[Selection], first: dict[Selection, int], covers: dict[int, Cover]
) -> list[KeptSelection | Derived]:
    """The plan for all selections from that for the distinct ones. A repeated selection is derived from its first."""
    positions = list(first.values())
    members = {position: member for member, position in enumerate(positions)}
    outcome: list[KeptSelection | Derived] = []
    for position, selection in enumerate(wanted):
        original = first[selection]
        cover = covers.get(members[original])
        if cover is not None:
            added = tuple(positions[part] for part in cover.added)
            outcome.append(Derived(position, Cover(added, tuple(positions[part] for part in cover.subtracted))))
        elif position != original:
            outcome.append(Derived(position, Cover((original,))))
        else:
            outcome.append(KeptSelection(position))
    return outcome


class _Family:
    """Selections with those within and around each of them, found on demand."""

    def __init__(self, selections: list[Selection]) -> None:
        self.selections = selections
        self._index = _Index(selections)
        self._inside: dict[int, list[int]] = {}
        self._around: dict[int, list[int]] = {}

    def inside(self, member: int) -> list[int]:
        """The other selections whose rows are all in this one, without those that have no rows."""
        if member not in self._inside:
            near = self._index.perhaps_inside(self.selections[member])
            self._inside[member] = [o for o in sorted(near) if o != member and self._implies(o, member)]
        return self._inside[member]

    def around(self, member: int) -> list[int]:
        """The other selections that contain all of its rows."""
        if member not in self._around:
            near = self._index.perhaps_around(self.selections[member])
            self._around[member] = [o for o in sorted(near) if o != member and self._implies(member, o)]
        return self._around[member]

    def _implies(self, first: int, second: int) -> bool:
        return implies(self.selections[first], self.selections[second])

    def cover(
        self,
        member: int,
        usable: Callable[[int], bool],
        invertible: bool,
        duplicate_insensitive: bool,
        parts_max: int = PARTS_MAX,
    ) -> Cover | None:
        if self.selections[member] == NO_ROW:
            return Cover(())
        inside = [other for other in self.inside(member) if usable(other)]
        same = next((other for other in inside if self._implies(member, other)), None)
        if same is not None:
            return Cover((same,))
        if parts_max < 2:
            return None
        found = self._union(member, inside, not duplicate_insensitive, parts_max)
        if invertible:
            wholes = [whole for whole in self.around(member) if usable(whole)]
            wholes.sort(key=lambda whole: (len(self.inside(whole)), whole))
            for whole in wholes[:WHOLES_MAX]:
                if found is not None and found.parts <= 2:
                    break
                most = parts_max if found is None else found.parts - 1
                rest = [other for other in self.inside(whole) if other != member and usable(other)]
                found = self._difference(member, whole, rest, most) or found
        return found

    def _union(self, member: int, parts: list[int], disjointly: bool, most: int) -> Cover | None:
        if len(parts) < 2:
            return None
        masks = region_masks([self.selections[m] for m in (member, *parts)])
        chosen = None if masks is None else _fewest(masks[0], masks[1:], disjointly, most)
        return None if chosen is None else Cover(tuple(sorted(parts[c] for c in chosen)))

    def _difference(self, member: int, whole: int, parts: list[int], most: int) -> Cover | None:
        """A cover `whole` minus parts, if the parts are exactly the rows of `whole` outside of the member."""
        parts = [part for part in parts if disjoint(self.selections[part], self.selections[member])]
        if not parts:
            return None
        masks = region_masks([self.selections[m] for m in (member, whole, *parts)])
        if masks is None:
            return None
        chosen = _fewest(masks[1] & ~masks[0], masks[2:], True, most - 1)
        return None if chosen is None else Cover((whole,), tuple(sorted(parts[c] for c in chosen)))


class _Index:
    """Selections by the subjects of their terms and, if a term pins a subject to single values, by these values.

    A look-up finds all selections that can be proven to lie within (or around) another, except in rare cases in which
    only several terms together do.
    """

    def __init__(self, selections: Sequence[Selection]) -> None:
        self._mentioned: dict[Subject, set[int]] = {}
        self._loose: dict[Subject, set[int]] = {}
        self._pinned: dict[tuple[Subject, Cut | None], set[int]] = {}
        self._all = {m for m, selection in enumerate(selections) if selection != NO_ROW}
        self._every_row = {m for m, selection in enumerate(selections) if selection == EVERY_ROW}
        for member, selection in enumerate(selections):
            for subject, values in (atom for term in selection.terms for atom in term.atoms):
                self._mentioned.setdefault(subject, set()).add(member)
                points = values.points()
                if points is None:
                    self._loose.setdefault(subject, set()).add(member)
                for point in points or ():
                    self._pinned.setdefault((subject, point), set()).add(member)

    def perhaps_inside(self, selection: Selection) -> set[int]:
        found: set[int] = set()
        for term in selection.terms:
            if not term.atoms:
                return self._all
            # A term within this one restricts each of its subjects. So the subject with the fewest selections is
            # enough.
            choices = []
            for subject, values in term.atoms:
                points = values.points()
                if points is None:
                    choices.append(self._mentioned.get(subject, set()))
                else:
                    choices.append(set().union(*(self._pinned.get((subject, point), ()) for point in points)))
            found |= min(choices, key=len)
        return found

    def perhaps_around(self, selection: Selection) -> set[int]:
        found = set(self._every_row)
        for subject, values in selection.terms[0].atoms:
            points = values.points()
            if points is None:
                found |= self._mentioned.get(subject, set())
            else:
                found |= self._loose.get(subject, set()) | self._pinned.get((subject, points[0]), set())
        return found


def _fewest(target: int, masks: Sequence[int], disjointly: bool, most: int) -> list[int] | None:
    """The fewest masks whose union is the target, without common bits if `disjointly`, by branch and bound.

    Each step covers the region that is in the fewest masks, so that forced choices come first.
    """
    parts = [(mask, number) for number, mask in enumerate(masks) if mask and not mask & ~target]
    parts.sort(key=lambda part: (-part[0].bit_count(), part[1]))
    if reduce(lambda union, part: union | part[0], parts, 0) != target or most < 1:
        return None
    holders = {
        bit: [part for part in parts if part[0] >> bit & 1] for bit in range(target.bit_length()) if target >> bit & 1
    }
    rarest = sorted(holders, key=lambda bit: (len(holders[bit]), bit))
    largest = parts[0][0].bit_count()
    best: list[int] | None = None
    steps = iter(range(STEPS_MAX))

    def search(remaining: int, chosen: list[int], start: int) -> None:
        nonlocal best
        if not remaining:
            best = chosen
            return
        limit = most if best is None else len(best) - 1
        if len(chosen) + -(-remaining.bit_count() // largest) > limit or next(steps, None) is None:
            return
        while not remaining >> rarest[start] & 1:
            start += 1
        choices = [part for part in holders[rarest[start]] if not (disjointly and part[0] & ~remaining)]
        choices.sort(key=lambda part: -(part[0] & remaining).bit_count())
        for mask, number in choices:
            search(remaining & ~mask, [*chosen, number], start + 1)

    search(target, [], 0)
    return best

"""Regions: divides rows by the selections that keep them, so that a selection is a bit mask.

The values of each subject fall into cells: values in one cell are in the same sets of that subject. A combination of
one cell per subject is wholly inside or outside of each selection. Combinations that are in the same selections form
one region. With a bit for each region, selections are compared by `&`, `|` and `==` on whole numbers:

    protocol = TCP          regions   TCP only   TCP and U   U only   neither
    user = U                bit          0          1           2        3
                            masks     0b0011 and 0b0110

Invariant: two masks are equal exactly if the selections keep the same rows, for any combination of values of the
subjects. So equal masks always mean equal rows. Cost: selections x combinations of cells, up to a bound; above it there
is no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from panewise.optimize.sharing.selections.selections import Selection, Subject
from panewise.optimize.sharing.selections.value_sets import Cut, ValueSet

COMBINATIONS_MAX = 1 << 24  # combinations of cells times selections: 16 MB and some tens of milliseconds


def region_masks(selections: Sequence[Selection]) -> list[int] | None:
    """For each selection the mask of its regions; None if there are too many combinations."""
    subjects = sorted(frozenset[Subject]().union(*(selection.subjects for selection in selections)))
    sets: dict[Subject, dict[ValueSet, int]] = {subject: {} for subject in subjects}
    for selection in selections:
        for term in selection.terms:
            for subject, values in term.atoms:
                sets[subject].setdefault(values, len(sets[subject]))
    cells = [_cells(list(sets[subject])) for subject in subjects]
    combinations = reduce(lambda product, members: product * members.shape[1], cells, 1)
    if combinations * len(selections) > COMBINATIONS_MAX:
        return None
    inside = np.zeros((len(selections), combinations), dtype=np.bool_)
    axes = {subject: axis for axis, subject in enumerate(subjects)}
    shape = tuple(members.shape[1] for members in cells)
    for row, selection in zip(inside, selections, strict=True):
        grid = row.reshape(shape)
        for term in selection.terms:
            grid |= _grid(term.atoms, axes, sets, cells)
    return _masks(inside)


def _grid(
    atoms: tuple[tuple[Subject, ValueSet], ...],
    axes: dict[Subject, int],
    sets: dict[Subject, dict[ValueSet, int]],
    cells: list[NDArray[np.bool_]],
) -> NDArray[np.bool_]:
    """The combinations of cells in a term. The axis of a subject that it does not mention has length one."""
    grid = np.ones((1,) * len(axes), dtype=np.bool_)
    for subject, values in atoms:
        axis = axes[subject]
        members = cells[axis][sets[subject][values]]
        grid = grid & members.reshape((1,) * axis + (-1,) + (1,) * (len(axes) - axis - 1))
    return grid


def _cells(sets: list[ValueSet]) -> NDArray[np.bool_]:
    """A matrix: element (s, c) says whether set s has the values of cell c."""
    toggles: dict[Cut, int] = {}
    for number, values in enumerate(sets):
        for cut in values.cuts:
            toggles[cut] = toggles.get(cut, 0) ^ (1 << number)
    domain = sets[0].domain
    signatures = {sum(1 << number for number, values in enumerate(sets) if values.null): None}
    current = 0
    if min(toggles, default=domain.high) > domain.low:
        signatures[current] = None
    for cut in sorted(toggles):
        current ^= toggles[cut]
        if cut < domain.high:
            signatures[current] = None
    width = (len(sets) + 7) // 8
    packed = np.array([list(signature.to_bytes(width, "little")) for signature in signatures], dtype=np.uint8)
    return np.ascontiguousarray(np.unpackbits(packed, axis=1, bitorder="little", count=len(sets)).T.astype(np.bool_))


def _masks(inside: NDArray[np.bool_]) -> list[int]:
    """The masks of the rows, with one bit for each distinct column."""
    packed = np.ascontiguousarray(np.packbits(inside, axis=0).T)
    _, first = np.unique(packed.view(np.dtype((np.void, packed.shape[1]))).ravel(), return_index=True)
    regions = inside[:, np.sort(first)]
    return [int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little") for row in regions]

"""The windows of a tree, as a multiset that maintains their edges at a low cost.

Most of ten thousand windows have only edges that others have too, and change nothing. Adding a window costs O(classes)
NumPy steps. Removing one costs nothing unless it was the last with one of its edges; then the edges are recomputed when
they are next needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence, classes_of, without_covered


class WindowSet:
    """A multiset of windows. Iteration gives each distinct window once.

    >>> windows = WindowSet([Cadence(5, 2)])
    >>> windows.add(Cadence(8, 4)), windows.add(Cadence(9, 9))
    (False, True)
    >>> [part.tolist() for part in windows.edges]
    [[2, 2, 9], [0, 1, 0]]
    """

    def __init__(self, cadences: Iterable[Cadence] = ()) -> None:
        self._counts: dict[Cadence, int] = {}
        self._classes: dict[tuple[int, int], int] = {}  # number of distinct windows by residue class of edges
        self._edges: tuple[Ints, Ints] | None = without_covered([])
        self._endless = 0
        for cadence in cadences:
            self.add(cadence)

    def __iter__(self) -> Iterator[Cadence]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def endless(self) -> bool:
        """Whether some window has no beginning."""
        return self._endless > 0

    @property
    def shortest_slide(self) -> int | None:
        """The shortest slide, which is always that of a class; None without windows."""
        slides = self.edges[0]
        return int(slides[0]) if len(slides) else None

    @property
    def edges(self) -> tuple[Ints, Ints]:
        """Slides and phases of the residue classes of edges, ascending, none covered by another."""
        if self._edges is None:
            self._edges = without_covered(self._classes)
        return self._edges

    @property
    def classes(self) -> tuple[tuple[int, int], ...]:
        """The residue classes of edges, as pairs of slide and phase."""
        slides, phases = self.edges
        return tuple(zip(slides.tolist(), phases.tolist(), strict=True))

    def add(self, cadence: Cadence) -> bool:
        """Adds a window. Returns whether it has new edges."""
        held = self._counts.get(cadence, 0)
        self._counts[cadence] = held + 1
        if held:
            return False
        self._endless += cadence.range is None
        fresh = False
        self._edges = self.edges  # as they are without it
        for slide, phase in classes_of(cadence):
            count = self._classes.get((slide, phase), 0)
            self._classes[slide, phase] = count + 1
            if not count and not self._covers(slide, phase):
                fresh = True
                self._insert(slide, phase)
        return fresh

    def _covers(self, slide: int, phase: int) -> bool:
        slides, phases = self.edges
        return bool(((slide % slides == 0) & (phase % slides == phases)).any())

    def _insert(self, slide: int, phase: int) -> None:
        """Adds a class that no other covers, and drops those that it covers."""
        slides, phases = self.edges
        left = (slides % slide != 0) | (phases % slide != phase)
        slides, phases = np.append(slides[left], slide), np.append(phases[left], phase)
        order = np.lexsort((phases, slides))
        self._edges = slides[order], phases[order]

    def remove(self, cadence: Cadence) -> None:
        """Removes a window."""
        held = self._counts[cadence] - 1
        self._counts[cadence] = held
        if held:
            return
        del self._counts[cadence]
        self._endless -= cadence.range is None
        for found in classes_of(cadence):
            self._classes[found] -= 1
            if not self._classes[found]:
                del self._classes[found]
                self._edges = None

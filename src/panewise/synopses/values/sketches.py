"""Sketches over dyadic intervals: approximate answers in space that does not grow with the values.

    kind        answers                       sketch of Apache DataSketches        parameter, and what it costs
    hll         estimate (distinct values)    HLL, four bits a register            lg_k 12: 2 KiB, error 1.6 %
    kll         quantile                      KLL of doubles                       k 200: about 2 KiB, rank error 1.3 %
    frequent    top                           frequent items (Misra-Gries)         lg_max_map_size 10: error rows / 300

A sketch is a mergeable state, so the sketches of an interval are merged from those of its halves, as in bags. A slice
costs O(1) to insert, and O(log slices) merges once, when a window first needs the intervals above it. An answer merges
the O(log slices) sketches of its cover. Windows may have any range, be historical, and be by count or by time.

Sketches are fed with runs: distinct decoded values with their counts. A sketch holds values, never codes of a string
pool, so sketches of several workers and of restored snapshots can be merged. `sketch_kinds` has the kinds.

Sketches are merged group by group, called from Python, so they pay off for few groups and long slices. Source: Golab
2006, section 2.3.4 (sketches per sub-window). Needs the extra `sketches`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from panewise.arrays import Floats, Ints
from panewise.errors import PanewiseError
from panewise.synopses.values.dyadic_runs import dyadic_cover
from panewise.synopses.values.runs import Run
from panewise.synopses.values.sketch_kinds import NAN_ITEM, SKETCH_KINDS, Decoded, sketch_library

# One slice: the numbers of its groups, ascending, and a sketch per group, as an object or as bytes (see `serialised`).
SketchSlice = tuple[Ints, Sequence[Any]]
Sketches = dict[int, Any]  # by group


class SketchSynopsis:
    """Sketches of slices `first` to `after`, and of dyadic intervals over them, made when first needed.

    `kind` is one of SKETCH_KINDS; `parameters` may set its parameter, otherwise the default holds. Like a bag, it is
    asked for windows [start, end) of slice numbers and for groups; answers have the shape answers x groups.
    """

    def __init__(self, kind: str, parameters: dict[str, int] | None = None) -> None:
        self.kind = kind
        self._kind = SKETCH_KINDS[kind]
        self.parameters = {self._kind.parameter: self._kind.default} | (parameters or {})
        unknown = set(self.parameters) - {self._kind.parameter}
        if unknown:
            raise PanewiseError(
                f"a sketch '{kind}' has no parameter '{min(unknown)}'", hint=f"there is {self._kind.parameter}"
            )
        self._size = self.parameters[self._kind.parameter]
        if not self._kind.least <= self._size <= self._kind.most:
            raise PanewiseError(
                f"{self._kind.parameter} of a sketch '{kind}' is {self._kind.least} to {self._kind.most}, "
                f"not {self._size}"
            )
        self._datasketches = sketch_library()
        self.first = 0
        self.after = 0
        self._nodes: dict[tuple[int, int], Sketches] = {}  # by level and index

    @property
    def bytes_held(self) -> int:
        """Bytes of state, approximately."""
        return sum(self._kind.size_bytes(sketch) for node in self._nodes.values() for sketch in node.values())

    # -- slices ------------------------------------------------------------------------------------------------------

    def made_from(self, run: Run, values: Decoded) -> SketchSlice:
        """The sketches of one slice; `values` are the decoded values of the run."""
        groups, begins = np.unique(run.groups, return_index=True)
        bounds = [*begins.tolist(), len(run)]
        sketches = [
            self._kind.make(self._datasketches, self._size, values[begin:end], run.counts[begin:end])
            for begin, end in pairwise(bounds)
        ]
        return groups, sketches

    def merged(self, slices: Sequence[SketchSlice]) -> SketchSlice:
        """One slice merged from the parts of it that several workers made."""
        merged = self._merged_by_group([self._by_group(piece) for piece in slices])
        groups = sorted(merged)
        return np.array(groups, np.int64), [merged[group] for group in groups]

    def serialised(self, made: SketchSlice) -> tuple[Ints, list[bytes]]:
        """The slice with its sketches as bytes, to be sent or stored."""
        groups, sketches = made
        return groups, [
            sketch if isinstance(sketch, bytes) else self._kind.to_bytes(self._datasketches, sketch)
            for sketch in sketches
        ]

    def insert(self, slices: Sequence[SketchSlice]) -> None:
        """Appends new slices, oldest first; a slice without values has no groups."""
        for piece in slices:
            self._nodes[0, self.after] = self._by_group(piece)
            self.after += 1

    def _by_group(self, piece: SketchSlice) -> Sketches:
        return {
            int(group): self._kind.from_bytes(self._datasketches, sketch) if isinstance(sketch, bytes) else sketch
            for group, sketch in zip(*piece, strict=True)
        }

    def evict(self, before: int) -> None:
        """Forgets the slices numbered below `before`."""
        before = min(max(self.first, before), self.after)
        for number in range(self.first, before):
            # An interval is dropped together with its first slice.
            for level in range(self.after.bit_length() + 1):
                if number >> level << level != number:
                    break
                self._nodes.pop((level, number >> level), None)
        self.first = before

    def _merged_by_group(self, parts: Sequence[Sketches]) -> Sketches:
        by_group: dict[int, list[Any]] = {}
        for part in parts:
            for group, sketch in part.items():
                by_group.setdefault(group, []).append(sketch)
        return {group: self._merged_sketch(sketches) for group, sketches in by_group.items()}

    def _merged_sketch(self, sketches: list[Any]) -> Any:
        return sketches[0] if len(sketches) == 1 else self._kind.merge(self._datasketches, self._size, sketches)

    def _node(self, level: int, index: int) -> Sketches:
        node = self._nodes.get((level, index))
        if node is None:
            node = self._merged_by_group([self._node(level - 1, 2 * index), self._node(level - 1, 2 * index + 1)])
            self._nodes[level, index] = node
        return node

    # -- answers -----------------------------------------------------------------------------------------------------

    def _answers(self, starts: Ints, ends: Ints, groups: Ints) -> Iterator[tuple[int, int, Any]]:
        """Yields (answer, place of the group, sketch of the window) for each pair that has a value."""
        assert not len(starts) or (int(starts.min()) >= self.first and int(ends.max()) <= self.after), (
            "a window reaches beyond the slices held"
        )
        offsets, levels, indices = (part.tolist() for part in dyadic_cover(starts, ends))
        for answer in range(len(starts)):
            cover = [self._node(levels[n], indices[n]) for n in range(offsets[answer], offsets[answer + 1])]
            for place, group in enumerate(groups.tolist()):
                sketches = [node[group] for node in cover if group in node]
                if sketches:
                    yield answer, place, self._merged_sketch(sketches)

    def estimate(self, starts: Ints, ends: Ints, groups: Ints) -> Floats:
        """Estimated numbers of distinct values (answers x groups); for hll."""
        assert self._kind.answer == "estimate", self.kind
        result = np.zeros((len(starts), len(groups)))
        for answer, place, sketch in self._answers(starts, ends, groups):
            result[answer, place] = sketch.get_estimate()
        return result

    def quantile(self, starts: Ints, ends: Ints, groups: Ints, fractions: float | Floats) -> Floats:
        """Estimated quantiles, NaN where there are no values; for kll.

        `fractions` is one fraction for all, or one per answer and group.
        """
        assert self._kind.answer == "quantile", self.kind
        shape = len(starts), len(groups)
        wanted, result = np.broadcast_to(fractions, shape), np.full(shape, np.nan)
        for answer, place, sketch in self._answers(starts, ends, groups):
            if not sketch.is_empty():
                result[answer, place] = sketch.get_quantile(float(wanted[answer, place]), True)
        return result

    def top(self, starts: Ints, ends: Ints, groups: Ints, k: int) -> tuple[Ints, list[Any], Ints]:
        """Estimates of the k most frequent values and their counts: (offsets, values, counts); for frequent.

        Most frequent first; equal counts in the order of their values. `offsets` are as in `BagSynopsis.top`.
        """
        assert self._kind.answer == "top", self.kind
        found: list[list[Any]] = [[] for _ in range(len(starts) * len(groups))]
        for answer, place, sketch in self._answers(starts, ends, groups):
            items = sketch.get_frequent_items(self._datasketches.NO_FALSE_NEGATIVES)
            # NaN is the greatest value.
            items.sort(key=lambda item: (-item[1], item[0] == NAN_ITEM, 0 if item[0] == NAN_ITEM else item[0]))
            found[answer * len(groups) + place] = items[:k]
        offsets = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(items) for items in found], out=offsets[1:])
        values = [math.nan if item[0] == NAN_ITEM else item[0] for items in found for item in items]
        return offsets, values, np.array([item[1] for items in found for item in items], np.int64)

    # -- renumbering and snapshots -----------------------------------------------------------------------------------

    def regroup(self, renamed: Ints) -> None:
        """Renumbers groups: `renamed` has the new number of each old one, -1 for a dropped group."""
        for place, node in self._nodes.items():
            self._nodes[place] = {int(renamed[g]): sketch for g, sketch in node.items() if renamed[g] >= 0}

    def held(self) -> list[SketchSlice]:
        """The slices held, as they were inserted."""
        nodes = [self._nodes[0, number] for number in range(self.first, self.after)]
        return [(np.array(sorted(node), np.int64), [node[group] for group in sorted(node)]) for node in nodes]

    def snapshot(self) -> dict[str, Any]:
        """All state as plain arrays: the concatenated bytes of the sketches, and the number of sketches per slice."""
        slices = [self.serialised(piece) for piece in self.held()]
        sketches = [sketch for _, piece in slices for sketch in piece]
        return {
            "kind": self.kind,
            "parameter": self._size,
            "first": self.first,
            "after": self.after,
            "lengths": np.array([len(groups) for groups, _ in slices], np.int64),
            "groups": np.concatenate([np.empty(0, np.int64), *(groups for groups, _ in slices)]),
            "sizes": np.array([len(sketch) for sketch in sketches], np.int64),
            "sketches": np.frombuffer(b"".join(sketches), np.uint8),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Replaces the state by that of a snapshot of the same kind."""
        assert snapshot["kind"] == self.kind, (snapshot["kind"], self.kind)
        self._size = int(snapshot["parameter"])
        self.parameters = {self._kind.parameter: self._size}
        self.first = self.after = int(snapshot["first"])
        self._nodes = {}
        data = np.asarray(snapshot["sketches"], np.uint8).tobytes()
        ends = np.cumsum(snapshot["sizes"], dtype=np.int64).tolist()
        sketches = [data[end - size : end] for size, end in zip(snapshot["sizes"].tolist(), ends, strict=True)]
        begin = 0
        for length in snapshot["lengths"].tolist():
            piece = slice(begin, begin + length)
            self.insert([(snapshot["groups"][piece], sketches[piece])])
            begin += length

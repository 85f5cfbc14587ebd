"""Sketches over dyadic intervals: approximate answers in space that does not grow with the values.

    kind        answers                       sketch of Apache DataSketches        parameter, and what it costs
    hll         estimate (distinct values)    HLL, four bits a register            lg_k 12: 2 KiB, error 1.6 %
    theta       estimate (distinct values)    theta                                lg_k 12: 32 KiB, error 1.6 %
    kll         quantile                      KLL of doubles                       k 200: about 2 KiB, rank error 1.3 %
    frequent    top                           frequent items (Misra-Gries)         lg_max_map_size 10: error rows / 300

A sketch is a mergeable state, so intervals are made of their halves as those of bags are: insert O(1) a slice and
O(log slices) merges, once, when a window first needs them; an answer merges the O(log slices) sketches of its cover.
Any range and historical windows, by count or by time. What is fed are runs, distinct values with their counts, decoded:
a sketch holds values, never codes of a string pool, so sketches of several workers and of restored snapshots merge.

Where the library's ways are not SQL's: it leaves out empty strings, so strings are fed with a mark before them; it has
no equal NaN, so NaN is fed to `frequent` as bytes; KLL leaves out NaN, and so do its quantiles. KLL draws random bits:
two runs over the same rows may answer differently, both within the error.

Merging is the library's and happens per group, in Python around compiled C++: for few groups and long slices, which
is where sketches pay. Source: Golab 2006, section 2.3.4 (sketches per sub-window). Needs the extra `sketches`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Floats, Ints
from panewise.errors import PanewiseError
from panewise.synopses.values.dyadic_runs import dyadic_cover
from panewise.synopses.values.runs import Run

# A slice: the numbers of its groups, ascending, and a sketch of each: objects, or bytes as `serialised` makes them.
SketchSlice = tuple[Ints, Sequence[Any]]
Sketches = dict[int, Any]  # by group
# The values of a run as they are: an array of int64 or float64, or strings.
Decoded = NDArray[Any] | Sequence[Any]
_NAN = b"NaN"  # no value of a column is of this type


def _library() -> Any:
    try:
        import datasketches
    except ImportError:
        raise PanewiseError(
            "approximate aggregates need the package 'datasketches', and it is not installed",
            hint="pip install 'panewise[sketches]'",
        ) from None
    return datasketches


@dataclass(frozen=True)
class SketchKind:
    """What is done with the sketches of one kind; `parameter` and its bounds are the library's.

    `united` makes one sketch of several, which stay as they are: they belong to other intervals too.
    """

    answer: str  # the method of SketchSynopsis that reads it
    parameter: str
    default: int
    least: int
    most: int
    made: Callable[[Any, int, Decoded, Ints], Any]
    united: Callable[[Any, int, Sequence[Any]], Any]
    to_bytes: Callable[[Any, Any], bytes]
    from_bytes: Callable[[Any, bytes], Any]
    size_bytes: Callable[[Any], int]


def _plain(values: Decoded) -> list[Any]:
    """Python's own values: the library hashes those alike, whatever array they came from."""
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _hashed(values: Decoded) -> list[Any]:
    """What is hashed: the library passes over the empty string, so every string has a mark before it."""
    plain = _plain(values)
    return ["=" + value for value in plain] if plain and isinstance(plain[0], str) else plain


def _made_hll(library: Any, lg_k: int, values: Decoded, counts: Ints) -> Any:
    sketch = library.hll_sketch(lg_k, library.HLL_4)
    for value in _hashed(values):
        sketch.update(value)
    return sketch


def _united_hll(library: Any, lg_k: int, sketches: Sequence[Any]) -> Any:
    union = library.hll_union(lg_k)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result(library.HLL_4)


def _made_theta(library: Any, lg_k: int, values: Decoded, counts: Ints) -> Any:
    sketch = library.update_theta_sketch(lg_k)
    for value in _hashed(values):
        sketch.update(value)
    return sketch.compact()


def _united_theta(library: Any, lg_k: int, sketches: Sequence[Any]) -> Any:
    union = library.theta_union(lg_k)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result()


def _made_kll(library: Any, k: int, values: Decoded, counts: Ints) -> Any:
    sketch = library.kll_doubles_sketch(k)
    sketch.update(np.repeat(np.asarray(values, np.float64), counts))
    return sketch


def _united_kll(library: Any, k: int, sketches: Sequence[Any]) -> Any:
    union = library.kll_doubles_sketch(k)
    for sketch in sketches:
        union.merge(sketch)
    return union


def _made_frequent(library: Any, lg_size: int, values: Decoded, counts: Ints) -> Any:
    sketch = library.frequent_items_sketch(lg_size)
    for value, count in zip(_plain(values), counts.tolist(), strict=True):
        sketch.update(value if value == value else _NAN, count)
    return sketch


def _united_frequent(library: Any, lg_size: int, sketches: Sequence[Any]) -> Any:
    union = library.frequent_items_sketch(lg_size)
    for sketch in sketches:
        union.merge(sketch)
    return union


def _item_bytes(item: Any) -> bytes:
    """An item of a frequent-items sketch: a letter for its type, and its bytes."""
    if item == _NAN:
        return b"n"
    if isinstance(item, str):
        text = item.encode()
        return b"s" + struct.pack("<i", len(text)) + text
    if isinstance(item, float):
        return b"f" + struct.pack("<d", item)
    return b"i" + struct.pack("<q", item)


def _item(data: bytes, offset: int) -> tuple[Any, int]:
    """The item at an offset, and how many bytes it takes."""
    match data[offset : offset + 1]:
        case b"n":
            return _NAN, 1
        case b"s":
            (length,) = struct.unpack_from("<i", data, offset + 1)
            return data[offset + 5 : offset + 5 + length].decode(), 5 + length
        case b"f":
            return struct.unpack_from("<d", data, offset + 1)[0], 9
    return struct.unpack_from("<q", data, offset + 1)[0], 9


@cache
def _items(library: Any) -> Any:
    """The library asks for an object that turns items into bytes; its own one for strings fails beyond Latin 1."""

    class Items(library.PyObjectSerDe):  # type: ignore[misc]
        def get_size(self, item: Any) -> int:
            return len(_item_bytes(item))

        def to_bytes(self, item: Any) -> bytes:
            return _item_bytes(item)

        def from_bytes(self, data: bytes, offset: int) -> tuple[Any, int]:
            return _item(data, offset)

    return Items()


KINDS: dict[str, SketchKind] = {
    "hll": SketchKind(
        "estimate", "lg_k", 12, 7, 21, _made_hll, _united_hll,
        lambda library, sketch: sketch.serialize_compact(),
        lambda library, data: library.hll_sketch.deserialize(data),
        lambda sketch: sketch.get_compact_serialization_bytes(),
    ),
    "theta": SketchKind(
        "estimate", "lg_k", 12, 5, 26, _made_theta, _united_theta,
        lambda library, sketch: sketch.serialize(),
        lambda library, data: library.compact_theta_sketch.deserialize(data),
        lambda sketch: 24 + 8 * sketch.num_retained,
    ),
    "kll": SketchKind(
        "quantile", "k", 200, 8, 65535, _made_kll, _united_kll,
        lambda library, sketch: sketch.serialize(),
        lambda library, data: library.kll_doubles_sketch.deserialize(data),
        lambda sketch: 24 + 8 * sketch.num_retained,
    ),
    "frequent": SketchKind(
        "top", "lg_max_map_size", 10, 3, 26, _made_frequent, _united_frequent,
        lambda library, sketch: sketch.serialize(_items(library)),
        lambda library, data: library.frequent_items_sketch.deserialize(data, _items(library)),
        lambda sketch: 32 + 64 * sketch.num_active_items,  # an item is an object of Python's
    ),
}  # fmt: skip


class SketchSynopsis:
    """Sketches of slices `first` to `after`, and of dyadic intervals over them, made when first needed.

    `kind` is one of KINDS; `parameters` may set its parameter, otherwise the default holds. Answers are of shape
    answers x groups, for windows [start, end) of slice numbers and the groups asked for, as those of bags are.
    """

    def __init__(self, kind: str, parameters: dict[str, int] | None = None) -> None:
        self.kind = kind
        self._kind = KINDS[kind]
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
        self._datasketches = _library()
        self.first = 0
        self.after = 0
        self._nodes: dict[tuple[int, int], Sketches] = {}  # by level and index

    @property
    def bytes_held(self) -> int:
        """About how many bytes of state there are."""
        return sum(self._kind.size_bytes(sketch) for node in self._nodes.values() for sketch in node.values())

    # -- slices ------------------------------------------------------------------------------------------------------

    def made_from(self, run: Run, values: Decoded) -> SketchSlice:
        """The sketches of one slice; `values` are the run's values decoded: int64 or float64 array, or strings."""
        groups, begins = np.unique(run.groups, return_index=True)
        bounds = [*begins.tolist(), len(run)]
        sketches = [
            self._kind.made(self._datasketches, self._size, values[begin:end], run.counts[begin:end])
            for begin, end in pairwise(bounds)
        ]
        return groups, sketches

    def merged(self, slices: Sequence[SketchSlice]) -> SketchSlice:
        """One slice of several: the parts that workers made of it."""
        united = self._united([self._by_group(piece) for piece in slices])
        groups = sorted(united)
        return np.array(groups, np.int64), [united[group] for group in groups]

    def serialised(self, made: SketchSlice) -> tuple[Ints, list[bytes]]:
        """The slice with its sketches as bytes: to send it, or to keep it."""
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
            # An interval goes with its first slice.
            for level in range(self.after.bit_length() + 1):
                if number >> level << level != number:
                    break
                self._nodes.pop((level, number >> level), None)
        self.first = before

    def _united(self, parts: Sequence[Sketches]) -> Sketches:
        by_group: dict[int, list[Any]] = {}
        for part in parts:
            for group, sketch in part.items():
                by_group.setdefault(group, []).append(sketch)
        return {group: self._one(sketches) for group, sketches in by_group.items()}

    def _one(self, sketches: list[Any]) -> Any:
        return sketches[0] if len(sketches) == 1 else self._kind.united(self._datasketches, self._size, sketches)

    def _node(self, level: int, index: int) -> Sketches:
        node = self._nodes.get((level, index))
        if node is None:
            node = self._united([self._node(level - 1, 2 * index), self._node(level - 1, 2 * index + 1)])
            self._nodes[level, index] = node
        return node

    # -- answers -----------------------------------------------------------------------------------------------------

    def _answers(self, starts: Ints, ends: Ints, groups: Ints) -> Iterator[tuple[int, int, Any]]:
        """Each answer's and group's place with the sketch of its window, where there is a value."""
        assert not len(starts) or (int(starts.min()) >= self.first and int(ends.max()) <= self.after), (
            "a window reaches beyond the slices held"
        )
        offsets, levels, indices = (part.tolist() for part in dyadic_cover(starts, ends))
        for answer in range(len(starts)):
            cover = [self._node(levels[n], indices[n]) for n in range(offsets[answer], offsets[answer + 1])]
            for place, group in enumerate(groups.tolist()):
                sketches = [node[group] for node in cover if group in node]
                if sketches:
                    yield answer, place, self._one(sketches)

    def estimate(self, starts: Ints, ends: Ints, groups: Ints) -> Floats:
        """About how many distinct values there are (answers x groups); hll and theta."""
        assert self._kind.answer == "estimate", self.kind
        result = np.zeros((len(starts), len(groups)))
        for answer, place, sketch in self._answers(starts, ends, groups):
            result[answer, place] = sketch.get_estimate()
        return result

    def quantile(self, starts: Ints, ends: Ints, groups: Ints, fractions: float | Floats) -> Floats:
        """About the least value at or above which the fraction of values is reached; NaN where there is none; kll.

        `fractions` is one for all, or one per answer and group.
        """
        assert self._kind.answer == "quantile", self.kind
        shape = len(starts), len(groups)
        wanted, result = np.broadcast_to(fractions, shape), np.full(shape, np.nan)
        for answer, place, sketch in self._answers(starts, ends, groups):
            if not sketch.is_empty():
                result[answer, place] = sketch.get_quantile(float(wanted[answer, place]), True)
        return result

    def top(self, starts: Ints, ends: Ints, groups: Ints, k: int) -> tuple[Ints, list[Any], Ints]:
        """About the k most frequent values with estimates of their counts: (offsets, values, counts); frequent.

        Most frequent first, equal counts by value. `offsets` as `BagSynopsis.top` gives them.
        """
        assert self._kind.answer == "top", self.kind
        found: list[list[Any]] = [[] for _ in range(len(starts) * len(groups))]
        for answer, place, sketch in self._answers(starts, ends, groups):
            items = sketch.get_frequent_items(self._datasketches.NO_FALSE_NEGATIVES)
            # NaN is the greatest value.
            items.sort(key=lambda item: (-item[1], item[0] == _NAN, 0 if item[0] == _NAN else item[0]))
            found[answer * len(groups) + place] = items[:k]
        offsets = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(items) for items in found], out=offsets[1:])
        values = [math.nan if item[0] == _NAN else item[0] for items in found for item in items]
        return offsets, values, np.array([item[1] for items in found for item in items], np.int64)

    # -- other numbers and snapshots ---------------------------------------------------------------------------------

    def regroup(self, renamed: Ints) -> None:
        """Gives groups other numbers: the new one of each old one, -1 for those that are gone."""
        for place, node in self._nodes.items():
            self._nodes[place] = {int(renamed[g]): sketch for g, sketch in node.items() if renamed[g] >= 0}

    def held(self) -> list[SketchSlice]:
        """The slices held, as they were inserted."""
        nodes = [self._nodes[0, number] for number in range(self.first, self.after)]
        return [(np.array(sorted(node), np.int64), [node[group] for group in sorted(node)]) for node in nodes]

    def snapshot(self) -> dict[str, Any]:
        """All state, as plain arrays: the sketches' bytes one behind the other, and how many each slice has."""
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
        """The state of a snapshot of the same kind, in place of its own."""
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

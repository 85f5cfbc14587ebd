"""The kinds of sketches: how the sketches of each are made of values, merged, and turned into bytes and back.

The sketches are those of Apache DataSketches, whose rules differ from SQL's in three places. HLL ignores empty
strings, so every string is fed with a mark before it. `frequent` does not treat NaN as equal to itself, so NaN is fed
as bytes. KLL ignores NaN, and so do its quantiles. KLL draws random bits: two runs over the same rows may answer
differently, both within the error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.errors import PanewiseError

# The decoded values of a run: an array of int64 or float64, or strings.
Decoded = NDArray[Any] | Sequence[Any]
NAN_ITEM = b"NaN"  # NaN as an item of a frequent-items sketch; no column has values of this type


def sketch_library() -> Any:
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
    """The functions for sketches of one kind: each takes the library first, then the value of `parameter` if needed.

    `merge` makes a new sketch of several and does not change them, because other intervals refer to them too.
    """

    answer: str  # name of the method of SketchSynopsis that answers from it
    parameter: str  # as the library names it, with the default and the bounds
    default: int
    least: int
    most: int
    make: Callable[[Any, int, Decoded, Ints], Any]
    merge: Callable[[Any, int, Sequence[Any]], Any]
    to_bytes: Callable[[Any, Any], bytes]
    from_bytes: Callable[[Any, bytes], Any]
    size_bytes: Callable[[Any], int]


def _plain(values: Decoded) -> list[Any]:
    """Python's own values, which the library hashes alike whatever array they came from."""
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _hashed(values: Decoded) -> list[Any]:
    """The values to hash. Strings get a mark in front because the library ignores empty ones."""
    plain = _plain(values)
    return ["=" + value for value in plain] if plain and isinstance(plain[0], str) else plain


def _make_hll(library: Any, lg_k: int, values: Decoded, counts: Ints) -> Any:
    sketch = library.hll_sketch(lg_k, library.HLL_4)
    for value in _hashed(values):
        sketch.update(value)
    return sketch


def _merge_hll(library: Any, lg_k: int, sketches: Sequence[Any]) -> Any:
    union = library.hll_union(lg_k)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result(library.HLL_4)


def _make_kll(library: Any, k: int, values: Decoded, counts: Ints) -> Any:
    sketch = library.kll_doubles_sketch(k)
    sketch.update(np.repeat(np.asarray(values, np.float64), counts))
    return sketch


def _merge_kll(library: Any, k: int, sketches: Sequence[Any]) -> Any:
    union = library.kll_doubles_sketch(k)
    for sketch in sketches:
        union.merge(sketch)
    return union


def _make_frequent(library: Any, lg_size: int, values: Decoded, counts: Ints) -> Any:
    sketch = library.frequent_items_sketch(lg_size)
    for value, count in zip(_plain(values), counts.tolist(), strict=True):
        sketch.update(value if value == value else NAN_ITEM, count)
    return sketch


def _merge_frequent(library: Any, lg_size: int, sketches: Sequence[Any]) -> Any:
    union = library.frequent_items_sketch(lg_size)
    for sketch in sketches:
        union.merge(sketch)
    return union


def _item_to_bytes(item: Any) -> bytes:
    """An item of a frequent-items sketch as bytes: a letter for its type, then its value."""
    if item == NAN_ITEM:
        return b"n"
    if isinstance(item, str):
        text = item.encode()
        return b"s" + struct.pack("<i", len(text)) + text
    if isinstance(item, float):
        return b"f" + struct.pack("<d", item)
    return b"i" + struct.pack("<q", item)


def _item_at(data: bytes, offset: int) -> tuple[Any, int]:
    """The item at an offset and its number of bytes."""
    match data[offset : offset + 1]:
        case b"n":
            return NAN_ITEM, 1
        case b"s":
            (length,) = struct.unpack_from("<i", data, offset + 1)
            return data[offset + 5 : offset + 5 + length].decode(), 5 + length
        case b"f":
            return struct.unpack_from("<d", data, offset + 1)[0], 9
    return struct.unpack_from("<q", data, offset + 1)[0], 9


@cache
def _item_serialiser(library: Any) -> Any:
    """The serialiser of items that the library asks for. The library's own for strings fails beyond Latin 1."""

    class ItemSerialiser(library.PyObjectSerDe):  # type: ignore[misc]
        def get_size(self, item: Any) -> int:
            return len(_item_to_bytes(item))

        def to_bytes(self, item: Any) -> bytes:
            return _item_to_bytes(item)

        def from_bytes(self, data: bytes, offset: int) -> tuple[Any, int]:
            return _item_at(data, offset)

    return ItemSerialiser()


SKETCH_KINDS: dict[str, SketchKind] = {
    "hll": SketchKind(
        "estimate", "lg_k", 12, 7, 21, _make_hll, _merge_hll,
        lambda library, sketch: sketch.serialize_compact(),
        lambda library, data: library.hll_sketch.deserialize(data),
        lambda sketch: sketch.get_compact_serialization_bytes(),
    ),
    "kll": SketchKind(
        "quantile", "k", 200, 8, 65535, _make_kll, _merge_kll,
        lambda library, sketch: sketch.serialize(),
        lambda library, data: library.kll_doubles_sketch.deserialize(data),
        lambda sketch: 24 + 8 * sketch.num_retained,
    ),
    "frequent": SketchKind(
        "top", "lg_max_map_size", 10, 3, 26, _make_frequent, _merge_frequent,
        lambda library, sketch: sketch.serialize(_item_serialiser(library)),
        lambda library, data: library.frequent_items_sketch.deserialize(data, _item_serialiser(library)),
        lambda sketch: 32 + 64 * sketch.num_active_items,  # an item is an object of Python's
    ),
}  # fmt: skip

"""Which sub-index a row belongs to, and which sub-indices an update touches.

Time is divided into slots of one update interval: slot `j` is `(origin + (j - 1) * every, origin + j * every]`. An
update at the end of a slot adds the rows inserted in it and drops the rows that expire in it. G classes of insertion
slots times E classes of expiration slots make G x E sub-indices, numbered `g * E + e`:

                      expiration classes                 an update in slot j inserts into one row
                      e = 0   1   2   3                  and expires from one column:
      insertion   0 [  *   *   *   *  ]
      classes     1 [      *          ]                      G + E - 1 of G x E are touched
                  2 [      *          ]
                  3 [      *          ]

*Round-robin* gives slot `j` the class `j mod G`: no sub-index gets two consecutive updates, and all have about the same
size. *Chronological* gives consecutive slots of `lifetime / G` the same class. A *wave index* by insertion is
chronological with G = n, E = 1; by expiration it has G = 1, E = n, and if lifetimes vary each update touches all n.

An update either rewrites the sub-indices that it touches (Rebuild; REINDEX of the wave indices), or adds a run and only
removes expired rows from the files that have some (NoRebuild; DEL).

The sub-index of a row depends only on its own two instants. A row that is late, or lives longer than the lifetime,
makes an update touch more sub-indices, but is never in a wrong one. Cost: O(1) a row.

Source: Golab 2006, section 4.3.1 with algorithm 1, whose line 8 is `tau + (iE + j) * Delta + 1` to
`tau + (iE + j + 1) * Delta`; the wave index of section 2.3.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from panewise.errors import ArchiveError
from panewise.state.records import Record
from panewise.temporal import DURATION_MAX, INSTANT_MAX, INSTANT_MIN

Order = Literal["round_robin", "chronological"]
Style = Literal["rebuild", "no_rebuild"]
PARTS_MAX = 1_000  # most sub-indices: each is at least one file, and every probe reads all of them


@dataclass(frozen=True)
class Layout:
    """The numbers G and E of classes, their order, and how an update writes.

    >>> layout = Layout(2, 2, every_us=2, lifetime_us=16)
    >>> layout.name, layout.place(inserted=17, expires=20), sorted(layout.touched(18))
    ('Rebuild2x2', 2, [1, 2, 3])
    """

    insertion_parts: int
    expiration_parts: int
    every_us: int
    lifetime_us: int
    order: Order = "round_robin"
    style: Style = "rebuild"
    origin_us: int = 0

    def __post_init__(self) -> None:
        if min(self.insertion_parts, self.expiration_parts) < 1 or self.parts > PARTS_MAX:
            raise ArchiveError(
                f"a layout of {self.insertion_parts} x {self.expiration_parts} sub-indices is not possible",
                hint=f"both are at least 1, and together at most {PARTS_MAX} sub-indices",
            )
        if not 0 < self.every_us <= self.lifetime_us <= DURATION_MAX:
            raise ArchiveError(
                f"a layout cannot be updated every {self.every_us} us for lifetimes of {self.lifetime_us} us",
                hint="the interval between updates is positive and not longer than the longest lifetime",
            )
        numbers = (self.insertion_parts, self.expiration_parts, self.every_us, self.lifetime_us, self.origin_us)
        if not all(isinstance(number, int) for number in numbers) or not INSTANT_MIN <= self.origin_us <= INSTANT_MAX:
            raise ArchiveError(
                f"{', '.join(map(str, numbers))} are not valid numbers of a layout",
                hint="whole numbers, and an origin within the years 1 to 9999",
            )
        if self.order not in ("round_robin", "chronological"):
            raise ArchiveError(f"'{self.order}' is not an order of a layout", hint="round_robin or chronological")
        if self.style not in ("rebuild", "no_rebuild"):
            raise ArchiveError(f"'{self.style}' is not an update style", hint="rebuild or no_rebuild")

    @classmethod
    def wave_by_insertion(cls, parts: int, every_us: int, lifetime_us: int, style: Style = "rebuild") -> Layout:
        """R-ins (REINDEX) or D-ins (DEL)."""
        return cls(parts, 1, every_us, lifetime_us, "chronological", style)

    @classmethod
    def wave_by_expiration(cls, parts: int, every_us: int, lifetime_us: int, style: Style = "rebuild") -> Layout:
        """R-exp (REINDEX) or D-exp (DEL)."""
        return cls(1, parts, every_us, lifetime_us, "chronological", style)

    @property
    def parts(self) -> int:
        return self.insertion_parts * self.expiration_parts

    @property
    def name(self) -> str:
        """The name used in Golab 2006: Rebuild4x4, NoRebuild2x2chr, R-ins16, D-exp9."""
        if self.order == "chronological" and 1 in (self.insertion_parts, self.expiration_parts):
            kind = "ins" if self.expiration_parts == 1 else "exp"
            return f"{'R' if self.style == 'rebuild' else 'D'}-{kind}{self.parts}"
        style = "Rebuild" if self.style == "rebuild" else "NoRebuild"
        order = "chr" if self.order == "chronological" else ""
        return f"{style}{self.insertion_parts}x{self.expiration_parts}{order}"

    # -- slots and classes -----------------------------------------------------------------------------------------

    def slot(self, instant: int) -> int:
        return -((self.origin_us - instant) // self.every_us)

    def place(self, inserted: int, expires: int) -> int:
        """The number of a row's sub-index."""
        return int(self.places(np.array([inserted], np.int64), np.array([expires], np.int64))[0])

    def places(self, inserted: NDArray[np.int64], expires: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the sub-indices of rows."""
        insertion = -((self.origin_us - inserted) // self.every_us) // self._span(self.insertion_parts)
        expiration = -((self.origin_us - expires) // self.every_us) // self._span(self.expiration_parts)
        numbers: NDArray[np.int64] = (
            insertion % self.insertion_parts * self.expiration_parts + expiration % self.expiration_parts
        )
        return numbers

    def touched(self, now: int, before: int | None = None) -> frozenset[int]:
        """The sub-indices that an update at `now` may change after one at `before` (None: one slot ago).

        Only rows that are inserted or expire in the slots since then are considered.
        """
        last = self.slot(now)
        first = last if before is None else min(self.slot(before) + 1, last)
        rows = self._classes(first, last, self.insertion_parts)
        columns = self._classes(first, last, self.expiration_parts)
        return frozenset(
            row * self.expiration_parts + column
            for row in range(self.insertion_parts)
            for column in range(self.expiration_parts)
            if row in rows or column in columns
        )

    def _span(self, parts: int) -> int:
        """Number of consecutive slots of one class."""
        if self.order == "round_robin":
            return 1
        slots = -(-self.lifetime_us // self.every_us)
        return -(-slots // parts)

    def _classes(self, first: int, last: int, parts: int) -> set[int]:
        span = self._span(parts)
        chunks = range(first // span, last // span + 1)
        return set(range(parts)) if len(chunks) >= parts else {chunk % parts for chunk in chunks}

    # -- to and from JSON ------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return LAYOUT.to_dict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Layout:
        return LAYOUT.of_dict(fields)


LAYOUT = Record(Layout, "insertion_parts expiration_parts every_us lifetime_us order style origin_us")

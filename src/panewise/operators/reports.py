"""The reports that a family returns at once, for many members, most of them written together.

Members of one shape are written as one batch, whatever their windows: a batch for each would cost more than all
answers. The reports of one member are a slice of it, made on request.

    batch    | report | report | report | report | report |
    cuts     0        2                 4        5        rows 0 to 2 belong to member numbers[0], and so on
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers
from panewise.arrays import Ints
from panewise.operators.due_reports import EmptyReports

Piece: TypeAlias = pa.RecordBatch | EmptyReports


@dataclass
class MemberBatches:
    """Reports of several members of one shape; `numbers` are the numbers of the members' windows, all different."""

    shape: int
    batch: pa.RecordBatch
    numbers: Ints
    cuts: Ints

    @cached_property
    def places(self) -> Ints:
        """The position of each window number among the cuts; -1 if it is not there."""
        places = np.full(int(self.numbers.max()) + 1, -1, np.int64)
        places[self.numbers] = np.arange(len(self.numbers))
        return places

    def of(self, number: int) -> pa.RecordBatch | None:
        """The reports of the member with this window number; None if there are none."""
        place = int(self.places[number]) if number < len(self.places) else -1
        if place < 0:
            return None
        begin, end = int(self.cuts[place]), int(self.cuts[place + 1])
        return self.batch.slice(begin, end - begin)


@dataclass
class Reports(Mapping[str, list[Piece]]):
    """Pieces by member, in order of time. `apart` has those not written together; a member may have reports in both."""

    names: dict[int, str]  # the member, by window number
    together: list[MemberBatches] = field(default_factory=list)
    apart: dict[str, list[Piece]] = field(default_factory=dict)

    @cached_property
    def _pieces(self) -> dict[str, list[Piece]]:
        pieces = {name: list(found) for name, found in self.apart.items() if found}
        for shared in self.together:
            for number in shared.numbers.tolist():
                batch = shared.of(number)
                assert batch is not None
                pieces.setdefault(self.names[number], []).append(batch)
        for found in pieces.values():
            if len(found) > 1:
                found[:] = in_order(found)
        return pieces

    def __getitem__(self, name: str) -> list[Piece]:
        return self._pieces[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)


def in_order(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces of one member, in order of their reports.

    A batch is cut if a range of empty reports lies between two of its reports. No other pieces overlap.
    """
    gaps = np.sort(np.array([piece.first for piece in pieces if isinstance(piece, EmptyReports)], np.int64))
    if not len(gaps):
        return sorted(pieces, key=first_end)
    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, EmptyReports):
            found.append(piece)
            continue
        cuts = np.unique(np.searchsorted(integers(piece.column(1)), gaps))
        cuts = cuts[(cuts > 0) & (cuts < piece.num_rows)]
        places = [0, *cuts.tolist(), piece.num_rows]
        found.extend(piece.slice(begin, end - begin) for begin, end in pairwise(places))
    return sorted(found, key=first_end)


def first_end(piece: Piece) -> int:
    """The first report of a piece, by which the pieces of a member are sorted."""
    if isinstance(piece, EmptyReports):
        return piece.first
    return int(integers(piece.column(1).slice(0, 1))[0])

"""The slow, obvious archive: a list of rows, filtered; and random rows and updates to compare with."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from panewise.archive.layout import Layout

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])
EVERY, LIFETIME = 10, 120

LAYOUTS = [
    Layout(2, 2, EVERY, LIFETIME),
    Layout(3, 2, EVERY, LIFETIME, style="no_rebuild"),
    Layout(4, 4, EVERY, LIFETIME, origin_us=3),
    Layout(4, 4, EVERY, LIFETIME, style="no_rebuild"),
    Layout(2, 3, EVERY, LIFETIME, order="chronological"),
    Layout(5, 5, EVERY, LIFETIME, order="chronological", style="no_rebuild"),
    Layout(1, 1, EVERY, LIFETIME),
    *(
        make(parts, EVERY, LIFETIME, style)
        for make in (Layout.wave_by_insertion, Layout.wave_by_expiration)
        for parts, style in ((4, "rebuild"), (9, "no_rebuild"))
    ),
]

Row = tuple[int | None, str, int, int]  # key, text, inserted, expires


def table_of(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
    kinds = (pa.int64(), pa.string(), pa.int64(), pa.int64())
    names = ("key", "text", "_inserted", "_expires")
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=names)


def rows_of(table: pa.Table) -> list[Row]:
    columns = [table[name] for name in ("key", "text", "_inserted", "_expires")]
    times = [column.cast(pa.int64()) for column in columns[2:]]
    found = zip(*(column.to_pylist() for column in (*columns[:2], *times)), strict=True)
    return ordered(list(found))


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


class PlainTable:
    """Rows that have not expired at the last update."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.now: int | None = None

    def update(self, now: int, rows: list[Row]) -> None:
        self.now = now
        self.rows = [row for row in [*self.rows, *rows] if row[3] > now]

    def select(self, condition: Any = lambda row: True) -> list[Row]:
        return ordered([row for row in self.rows if condition(row)])


def random_rows(chance: random.Random, now: int, count: int) -> list[Row]:
    """Mostly of the last interval and with lives up to the longest; some late, some longer, some without a key."""
    rows: list[Row] = []
    for _ in range(count):
        late = chance.random() < 0.1
        inserted = now - chance.randrange(LIFETIME if late else EVERY)
        life = chance.randint(1, LIFETIME * 2 if chance.random() < 0.05 else LIFETIME)
        key = None if chance.random() < 0.05 else chance.randrange(12)
        rows.append((key, f"row {chance.randrange(1000)}", inserted, inserted + life))
    return rows

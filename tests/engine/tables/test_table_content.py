"""What differs between two contents of a table, against bags of rows; and keys that are none."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.catalog import TableDefinition
from panewise.engine.tables.table import Table
from panewise.engine.tables.table_content import check_keys, differing
from panewise.errors import DataError
from panewise.schema import BIGINT, DOUBLE, STRING, Column, Schema

SCHEMA = Schema((Column("k", BIGINT), Column("x", DOUBLE), Column("s", STRING)))
ROWS = st.lists(
    st.tuples(
        st.sampled_from([1, 2, None]), st.sampled_from([0.5, float("nan"), None]), st.sampled_from(["a", "", None])
    ),
    max_size=12,
)


def batch_of(rows: list[tuple[object, ...]], schema: Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema.to_arrow())


@given(ROWS, ROWS)
def test_differences_are_those_of_bags(old: list[tuple[object, ...]], new: list[tuple[object, ...]]) -> None:
    going, fresh = differing(batch_of(old), batch_of(new), SCHEMA)
    before, after = Counter(map(repr, old)), Counter(map(repr, new))
    assert Counter(repr(old[place]) for place in going) == before - after
    assert Counter(repr(new[place]) for place in fresh) == after - before


@given(ROWS, ROWS)
def test_rows_in_both_keep_their_numbers(old: list[tuple[object, ...]], new: list[tuple[object, ...]]) -> None:
    table = Table(TableDefinition("t", SCHEMA, (), False))
    table.become(batch_of(old))
    before = dict(zip(table.numbers.tolist(), map(repr, old), strict=True))
    table.become(batch_of(new))
    rows = [tuple(row.values()) for row in table.batch().to_pylist()]
    assert Counter(map(repr, rows)) == Counter(map(repr, new))
    kept = {number: repr(row) for number, row in zip(table.numbers.tolist(), rows, strict=True) if number in before}
    assert kept.items() <= before.items()
    assert len(kept) == sum((Counter(map(repr, old)) & Counter(map(repr, new))).values())


def test_wide_rows_are_told_apart() -> None:
    schema = Schema(tuple(Column(f"c{i}", BIGINT) for i in range(150)))
    rows: list[tuple[object, ...]] = [tuple(int(i == j) for i in range(150)) for j in (0, 70, 149)]
    going, fresh = differing(batch_of(rows, schema), batch_of(rows[:0:-1], schema), schema)
    assert (going.tolist(), fresh.tolist()) == ([0], [])


def test_keys() -> None:
    keyed = TableDefinition("t", SCHEMA, ("k", "s"), False)
    check_keys(batch_of([(1, None, "a"), (1, None, "b"), (2, None, "a")]), keyed)
    with pytest.raises(DataError, match="two rows of 't' would have the key k = 1, s = 'a'"):
        check_keys(batch_of([(1, None, "a"), (2, None, "a"), (1, 0.5, "a")]), keyed)
    with pytest.raises(DataError, match="'s' is part of the primary key of 't' and cannot be NULL"):
        check_keys(batch_of([(1, None, None)]), keyed)

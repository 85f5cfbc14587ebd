"""Random WHERE clauses over a few columns of every kind, and rows that lie on, beside and between their constants."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from numpy.typing import NDArray

from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import resolve
from panewise.plan.expressions.evaluate import compiled
from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, decimal

NAN, INFINITY = float("nan"), float("inf")

# Per column the values of rows; constants of predicates are drawn from the second list.
COLUMNS = {
    ColumnRef(INT, "i"): ([-(2**31), 0, 1, 2, 3, 4, 2**31 - 1], [Literal(INT, v) for v in (0, 1, 2, 3, 2**31 - 1)]),
    ColumnRef(BIGINT, "g"): (
        [-(2**63), 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1],
        [Literal(BIGINT, v) for v in (1, 2, 2**40)],
    ),
    ColumnRef(DOUBLE, "d"): (
        [NAN, INFINITY, -INFINITY, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0],
        [Literal(DOUBLE, v) for v in (0.0, -0.0, 1.0, 1.5, NAN, INFINITY, -INFINITY)],
    ),
    ColumnRef(FLOAT, "f"): (
        [NAN, 0.1, 0.5, 0.25, 16777216.0],
        [Literal(FLOAT, 0.1), Literal(DOUBLE, 0.1), Literal(FLOAT, NAN)],
    ),
    ColumnRef(decimal(6, 2), "m"): (
        [Decimal("0.00"), Decimal("0.10"), Decimal("0.11"), Decimal("2.50")],
        [Literal(decimal(6, 2), Decimal("0.10")), Literal(decimal(8, 4), Decimal("0.1050")), Literal(INT, 1)],
    ),
    ColumnRef(STRING, "s"): (
        ["", "a", "ab", "b", "\U0001f600", "\uffff"],
        [Literal(STRING, v) for v in ("", "a", "b", "\uffff")],
    ),
    ColumnRef(BOOLEAN, "b"): ([True, False], [Literal(BOOLEAN, True), Literal(BOOLEAN, False)]),
    ColumnRef(TIMESTAMP, "t"): ([-1, 0, 1, 86_400_000_000], [Literal(TIMESTAMP, 0), Literal(STRING, "1970-01-02")]),
    ColumnRef(DATE, "k"): ([-1, 0, 1, 2], [Literal(DATE, 0), Literal(STRING, "1970-01-02")]),
}
EXTRA_CONSTANTS = {
    "i": [Literal(DOUBLE, 1.5), Literal(BIGINT, 2**40), Literal(DOUBLE, NAN), Literal(decimal(4, 1), Decimal("2.5"))],
    "g": [Literal(decimal(4, 1), Decimal("1.5")), Literal(DOUBLE, 1.5), Literal(DOUBLE, 2.0**53)],
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def rows(count: int = 3000) -> pa.RecordBatch:
    """Random combinations, a fifth of all values NULL."""
    generator = random.Random(7)
    arrays = {
        column.name: pa.array(
            [None if generator.random() < 0.2 else generator.choice(values) for _ in range(count)],
            column.type.to_arrow(),
        )
        for column, (values, _) in COLUMNS.items()
    }
    return pa.record_batch(arrays)


ROWS = rows()


def kept(where: Expression | None) -> NDArray[np.bool_]:
    """The judge: which rows the evaluator keeps."""
    if where is None:
        return np.ones(len(ROWS), dtype=bool)
    mask: NDArray[np.bool_] = compiled(where)(ROWS).fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def constants(column: ColumnRef) -> st.SearchStrategy[Literal]:
    found = [*COLUMNS[column][1], *EXTRA_CONSTANTS.get(column.name, []), Literal(column.type, None)]
    return st.sampled_from(found)


@st.composite
def atoms(draw: st.DrawFn, columns: tuple[ColumnRef, ...] = tuple(COLUMNS)) -> Expression:
    column = draw(st.sampled_from(columns))
    shape = draw(
        st.sampled_from(("compare", "compare", "flip", "in", "between", "null", "distinct", "nan", "pair", "bare"))
    )
    constant = constants(column)
    match shape:
        case "compare":
            return resolve(draw(st.sampled_from(COMPARISONS)), (column, draw(constant)))
        case "flip":
            return resolve(draw(st.sampled_from(COMPARISONS)), (draw(constant), column))
        case "in":
            return resolve("in", (column, *draw(st.lists(constant, min_size=1, max_size=4))))
        case "between":
            above, below = resolve("ge", (column, draw(constant))), resolve("le", (column, draw(constant)))
            return resolve("and", (above, below))
        case "distinct":
            return resolve("is_distinct_from", (column, draw(constant)))
        case "nan" if column.type.numeric:
            return resolve("is_nan", (column,))
        case "pair":
            first, second = draw(st.sampled_from(list(itertools.permutations((_column("i"), _column("g")), 2))))
            return resolve(draw(st.sampled_from(COMPARISONS)), (first, second))
        case "bare":
            return draw(st.sampled_from((_column("b"), Literal(BOOLEAN, True), Literal(BOOLEAN, None))))
        case _:
            return resolve(draw(st.sampled_from(("is_null", "is_not_null"))), (column,))


def _column(name: str) -> ColumnRef:
    return next(column for column in COLUMNS if column.name == name)


def predicates(columns: tuple[ColumnRef, ...] = tuple(COLUMNS), leaves: int = 5) -> st.SearchStrategy[Expression]:
    def larger(smaller: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        pairs = st.tuples(st.sampled_from(("and", "or")), smaller, smaller)
        return st.one_of(
            pairs.map(lambda pair: resolve(pair[0], pair[1:])), smaller.map(lambda operand: resolve("not", (operand,)))
        )

    return st.recursive(atoms(columns), larger, max_leaves=leaves)


NUMBERED = _column("i")
FEW = (_column("i"), _column("b"))

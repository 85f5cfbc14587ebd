"""What a join's condition is taken apart into."""

from __future__ import annotations

import pyarrow as pa

from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import resolve
from panewise.plan.expressions.join_condition import taken_apart
from panewise.schema import BIGINT, BOOLEAN

SCHEMAS = [pa.schema([(f"{source}.{name}", pa.int64()) for name in "xyz"]) for source in "rst"]


def of(source: str, name: str) -> ColumnRef:
    return ColumnRef(BIGINT, name, source)


def equal(left: Expression, right: Expression) -> Expression:
    return resolve("eq", (left, right))


def both(*conjuncts: Expression) -> Expression:
    whole = conjuncts[0]
    for conjunct in conjuncts[1:]:
        whole = resolve("and", (whole, conjunct))
    return whole


def test_filters_classes_and_residual() -> None:
    above = resolve("gt", (of("r", "z"), Literal(BIGINT, 3)))
    less = resolve("lt", (of("s", "z"), of("t", "z")))
    next_y = resolve("add", (of("s", "y"), Literal(BIGINT, 1)))
    parts = taken_apart(
        SCHEMAS,
        both(
            equal(of("r", "x"), of("s", "x")),
            equal(of("s", "x"), of("t", "x")),
            equal(of("r", "y"), next_y),
            above,
            less,
        ),
    )
    assert parts.filters == (above, None, None)
    assert parts.residual == less
    assert [key_class.keys for key_class in parts.classes] == [
        {0: (of("r", "x"),), 1: (of("s", "x"),), 2: (of("t", "x"),)},
        {0: (of("r", "y"),), 1: (next_y,)},
    ]


def test_classes_over_the_same_inputs_are_one() -> None:
    parts = taken_apart(SCHEMAS, both(equal(of("r", "x"), of("s", "x")), equal(of("s", "y"), of("r", "y"))))
    assert [key_class.keys for key_class in parts.classes] == [
        {0: (of("r", "x"), of("r", "y")), 1: (of("s", "x"), of("s", "y"))}
    ]


def test_two_terms_of_one_input_in_a_class_are_a_filter() -> None:
    parts = taken_apart(SCHEMAS, both(equal(of("r", "x"), of("s", "x")), equal(of("s", "x"), of("r", "y"))))
    assert parts.filters[0] == equal(of("r", "x"), of("r", "y"))
    assert [key_class.keys for key_class in parts.classes] == [{0: (of("r", "x"),), 1: (of("s", "x"),)}]


def test_sides_that_read_two_inputs_are_residual() -> None:
    mixed = equal(resolve("add", (of("r", "x"), of("s", "x"))), of("t", "x"))
    parts = taken_apart(SCHEMAS, mixed)
    assert parts.residual == mixed
    assert parts.classes == ()


def test_constants_filter_the_first_input_and_true_is_nothing() -> None:
    never = Literal(BOOLEAN, False)
    assert taken_apart(SCHEMAS, never).filters == (never, None, None)
    assert taken_apart(SCHEMAS, Literal(BOOLEAN, True)).filters == (None, None, None)
    assert taken_apart(SCHEMAS, None).residual is None

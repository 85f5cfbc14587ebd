"""What roll-ups ask of states and keys."""

from __future__ import annotations

from panewise.aggregates.algebra import Algebra, Kind
from panewise.aggregates.states import MAXIMUM, MOMENTS, Feed
from panewise.language.expressions import ColumnRef, Literal
from panewise.language.functions import resolve
from panewise.optimize.sharing.selections.roll_up import combines, key_name
from panewise.schema import INT


def test_keys_are_expressions() -> None:
    a, three = ColumnRef(INT, "a"), Literal(INT, 3)
    assert key_name(resolve("add", (a, three))) == key_name(resolve("add", (three, a))) != key_name(a)


def test_the_order_of_rows_forbids_it() -> None:
    assert combines(MOMENTS.algebra) and combines(MAXIMUM[Feed.INTEGER].algebra)
    assert not combines(Algebra(Kind.ALGEBRAIC, commutative=False))

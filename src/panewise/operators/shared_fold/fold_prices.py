"""The cost of folding rows, alone or shared, and the pauses of families that did not gain from sharing.

Prices are measured, in nanoseconds. They decide who folds, and never affect results. Costs that occur both ways are
left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.language.expressions import Expression
from panewise.operators.family.family import Family
from panewise.operators.shared_fold.selection_classes import SelectionClasses
from panewise.schema import STRING

REST_FIRST, REST_MAX = 16, 4096  # batches until sharing is tried again after a loss
WHERE_NS, STRING_NS = 2.0, 8.0  # evaluating a clause, per row and column that it reads
TAKE_NS = 8.0  # copying a row that a clause keeps
SLOT_NS = (6.0, 8.0, 20.0)  # finding the slot of a row: without keys, with one key, with several
STATE_NS = 3.0  # folding, per row and state
MERGE_NS, MERGE_STATE_NS = 60.0, 20.0  # merging, per partial, and per state of a partial


def fold_ns(family: Family) -> float:
    """The cost of folding a row into a family."""
    return SLOT_NS[min(len(family.keys), 2)] + STATE_NS * len(family.states)


def where_ns(where: Expression) -> float:
    """The cost of evaluating a clause for a row."""
    return sum(STRING_NS if column.type == STRING else WHERE_NS for column in where.columns())


def class_ns(classes: SelectionClasses) -> float:
    """The cost of finding the class of a row; negligible if classes are found by value."""
    if classes.by_value:
        return 0.0
    return TAKE_NS + sum(WHERE_NS + where_ns(clause) for clause in classes.clauses)


def merge_ns(family: Family) -> float:
    """The cost of merging a partial into a family."""
    return MERGE_NS + MERGE_STATE_NS * len(family.states)


def alone_ns(family: Family, rows: int, kept: int, classes: SelectionClasses | None) -> float:
    """The cost for a family of folding rows itself, if its WHERE keeps `kept` of them.

    `classes` contain its WHERE. If they find classes by value, evaluating the clause costs nothing.
    """
    price = kept * fold_ns(family)
    if family.where is None:
        return price
    assert classes is not None
    return price + kept * TAKE_NS + (0.0 if classes.by_value else rows * where_ns(family.where))


@dataclass
class Rest:
    """The pause of a family that did not gain from sharing; each pause is four times as long, until it gains."""

    until: int = 0  # the first batch after the pause
    batches: int = REST_FIRST  # the length of the next pause

    def begin(self, batch: int) -> None:
        self.until, self.batches = batch + self.batches, min(4 * self.batches, REST_MAX)

    def is_over(self, batch: int) -> bool:
        return self.until <= batch

    def gained(self) -> None:
        self.batches = REST_FIRST

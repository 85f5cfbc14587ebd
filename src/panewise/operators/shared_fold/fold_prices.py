"""What folding costs, for whom it pays to have rows folded by others, and for how long who did not gain rests.

Prices are nanoseconds, as measured. They decide who folds, not what comes out. What both ways have in common is left
out of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.language.expressions import Expression
from panewise.operators.family.family import Family
from panewise.operators.shared_fold.selection_classes import SelectionClasses
from panewise.schema import STRING

REST_FIRST, REST_MAX = 16, 4096  # batches until what did not pay is tried again
WHERE_NS, STRING_NS = 2.0, 8.0  # a clause, a row, by each column that it reads
TAKE_NS = 8.0  # a row that a clause has kept
SLOT_NS = (6.0, 8.0, 20.0)  # a row's slot, by no key, one or several
STATE_NS = 3.0  # a row, a state
MERGE_NS, MERGE_STATE_NS = 60.0, 20.0  # a partial, and each of its states


def fold_ns(family: Family) -> float:
    """What a row costs that a family folds."""
    return SLOT_NS[min(len(family.keys), 2)] + STATE_NS * len(family.states)


def where_ns(where: Expression) -> float:
    """What it costs to judge a row."""
    return sum(STRING_NS if column.type == STRING else WHERE_NS for column in where.columns())


def class_ns(classes: SelectionClasses) -> float:
    """What it costs to find a row's class: nothing that counts, unless all clauses judge it."""
    if classes.by_value:
        return 0.0
    return TAKE_NS + sum(WHERE_NS + where_ns(clause) for clause in classes.clauses)


def merge_ns(family: Family) -> float:
    """What a partial costs that a family merges."""
    return MERGE_NS + MERGE_STATE_NS * len(family.states)


def alone_ns(family: Family, rows: int, kept: int, classes: SelectionClasses | None) -> float:
    """What a family pays that folds its rows itself; `kept` of them by its WHERE, if it has one. `classes`: those that
    know the clause, by which it is judged at no price where they go by values."""
    price = kept * fold_ns(family)
    if family.where is None:
        return price
    assert classes is not None
    return price + kept * TAKE_NS + (0.0 if classes.by_value else rows * where_ns(family.where))


@dataclass
class Rest:
    """Who did not gain rests for some batches, and four times as long each time until it gains."""

    until: int = 0  # the batch
    batches: int = REST_FIRST

    def begin(self, batch: int) -> None:
        self.until, self.batches = batch + self.batches, min(4 * self.batches, REST_MAX)

    def is_over(self, batch: int) -> bool:
        return self.until <= batch

    def gained(self) -> None:
        self.batches = REST_FIRST

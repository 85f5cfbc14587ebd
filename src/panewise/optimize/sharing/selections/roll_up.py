"""Roll-up: the partials of a query grouped by `a` are those of a query grouped by `a, b`, merged over `b`.

Host and guest read the same stream. The guest's keys must be among the host's keys, as expressions, and its states
among the host's states. The states must combine in any order, because a group's rows are in several groups of the host.

    rows --fold--> by a, b, c --merge--> by a, b --merge--> by a        per slice: rows, groups(a, b, c), groups(a, b)

A roll-up costs the host's groups per slice, folding costs the rows per slice; `operators/shared_fold/shared_fold.py`
measures both. Implements the roll-up that Golab 2006, section 8.3, leaves to "new rules".
"""

from __future__ import annotations

from panewise.aggregates.algebra import Algebra
from panewise.language.expressions import Expression
from panewise.plan.expressions.canonical import canonical


def combines(algebra: Algebra) -> bool:
    """Whether partials of different groups may be merged in any order."""
    return algebra.associative and algebra.commutative


def key_name(key: Expression) -> str:
    """A name that is equal for keys with the same meaning."""
    return repr(canonical(key))

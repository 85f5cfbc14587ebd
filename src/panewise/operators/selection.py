"""WHERE: selects the rows of a batch that a query sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.columns import flags
from panewise.language.expressions import Expression
from panewise.operators.row_batch import Rows
from panewise.plan.expressions.evaluate import compiled


class RowSelection:
    """A compiled WHERE; None passes every row. A condition that is NULL does not pass."""

    def __init__(self, where: Expression | None) -> None:
        self._condition: Any = None if where is None else compiled(where)

    def passing(self, rows: Rows) -> NDArray[np.bool_] | None:
        """The mask of the rows that pass; None if all pass."""
        if self._condition is None or not len(rows):
            return None
        mask: NDArray[np.bool_] = flags(self._condition(rows.batch))
        return None if mask.all() else mask

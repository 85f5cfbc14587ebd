"""Folding rows once for several families that differ in WHERE or GROUP BY.

`shared_fold.py` folds them, by the classes of rows that `selection_classes.py` finds. `fold_prices.py` decides for
which families this is cheaper than folding for themselves.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.operators.shared_fold.shared_fold import SharedFold as SharedFold

__getattr__, __dir__ = face(__name__, {"SharedFold": "shared_fold"})

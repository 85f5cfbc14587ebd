"""Rows folded once for several families that differ in WHERE or GROUP BY."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.operators.shared_fold.shared_fold import SharedFold as SharedFold

__getattr__, __dir__ = face(__name__, {"SharedFold": "shared_fold"})

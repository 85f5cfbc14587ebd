"""The families of a channel; rows are folded once for several of them (`operators/shared_fold/shared_fold.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from panewise.engine.channels.failures import failed, guarded
from panewise.engine.channels.readers import FamilyFolding, Folding
from panewise.operators.family.family import Family
from panewise.operators.row_batch import Rows
from panewise.operators.shared_fold.shared_fold import SharedFold
from panewise.optimize.sharing.report.family_report import FoldedWith


class FoldedFamilies(FamilyFolding):
    """Folds rows for all families; then each that is not torn follows the watermark."""

    def __init__(self) -> None:
        self.shared_fold = SharedFold()

    def folded_with(self, family: Family) -> FoldedWith | None:
        """The families that were folded with this one in the last pass."""
        return self.shared_fold.folded_with(family)

    def leave(self, reader: Folding) -> None:
        self.shared_fold.leave(reader.family)

    def take(self, readers: Sequence[Folding], rows: Rows, more: bool) -> None:
        torn: dict[int, Exception] = {}  # Errors by the id of the family.
        self.shared_fold.torn = lambda families, problem: torn.update(dict.fromkeys(map(id, families), problem))
        self.shared_fold.fold(rows, [reader.family for reader in readers])
        if not more:
            self.shared_fold.settle()
        for reader in readers:
            if id(reader.family) in torn:
                failed(reader, torn[id(reader.family)])
            elif more:
                guarded(reader, partial(reader.see, rows))
            else:
                guarded(reader, partial(reader.follow, rows))

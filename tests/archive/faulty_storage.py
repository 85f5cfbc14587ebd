"""An archive's local storage over files that fail, and whose lock goes with the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from panewise.archive.storage import LocalStorage
from tests.faulty_files import FaultyFiles


class FaultyStorage(LocalStorage):
    """See `FaultyFiles`."""

    def __init__(self, root: Path, at: int | None = None, how: str = "before") -> None:
        removed = root.parent / f"{root.name}-removed"
        removed.mkdir(exist_ok=True)
        self._faults = FaultyFiles(at, how, removed)
        super().__init__(root, self._faults)

    @property
    def count(self) -> int:
        return self._faults.count

    def lock(self) -> Callable[[], None] | None:
        unlock = super().lock()
        if unlock is None:
            return None
        left = [unlock]
        self._faults.at_death = once = lambda: left.pop()() if left else None
        return once

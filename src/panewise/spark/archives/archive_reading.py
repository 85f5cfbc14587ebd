"""Statements that read archives while Spark writes them: the books open the files while a statement runs.

A statement sees the newest committed version. Rows of a slot that is not over are not in it yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from panewise.engine.books.engine_archives import Archives
from panewise.errors import ArchiveError


@contextmanager
def with_files(archives: Archives, names: Iterable[str], must_be_there: bool = True) -> Iterator[None]:
    """Opens the archives for the books, and closes them afterwards. Takes no lock, so writers are not blocked."""
    from panewise.archive.archive import Archive

    keepers = [archives[name] for name in names]
    try:
        for keeper in keepers:
            with suppress(*(() if must_be_there else (ArchiveError,))):
                keeper.adopt(Archive.open(keeper.definition.path))
        yield
    finally:
        for keeper in keepers:
            keeper.archive = None

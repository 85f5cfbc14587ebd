"""Statements that read archives while Spark writes them: the books get their files for as long as a statement runs.

What is seen is the newest committed version; rows of a slot that is not over are still in the result log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from panewise.engine.books.engine_archives import Archives
from panewise.errors import ArchiveError


@contextmanager
def with_files(archives: Archives, names: Iterable[str], must_be_there: bool = True) -> Iterator[None]:
    """Readers take no lock, so whoever writes goes on."""
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

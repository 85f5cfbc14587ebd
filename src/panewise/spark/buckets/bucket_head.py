"""What the state store holds of a bucket: a head, rewritten with every micro-batch, and numbered pages.

The head lists the pages and the last commits. Its body belongs to the bucket's layout (`bucket_state.py`). Pages are
few and large, because every call to the store is a message to the JVM.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any, Protocol

from panewise.state.records import FORMAT, Record, check_format
from panewise.state.snapshot_format import dumped, loaded

HEAD_FORMAT = 1
RECENT = 16  # commits that a head lists


class Store(Protocol):
    """The state store, for one bucket: a head and numbered pages."""

    def head(self) -> bytes | None: ...
    def set_head(self, data: bytes) -> None: ...
    def page(self, number: int) -> bytes: ...
    def set_page(self, number: int, data: bytes) -> None: ...
    def drop_page(self, number: int) -> None: ...
    def clear(self) -> None: ...


@dataclass(frozen=True)
class PagePart:
    """What a page holds of one owner: of a family, by its number, or in a journal of a stream, by its position.

    For a family: the first start and the last end of its slices, and their bytes. For a stream: `until`, the greatest
    time that a row of the page can have.
    """

    owner: int
    since: int
    until: int
    size: int


@dataclass
class Page:
    """The micro-batches that a page came from, and what it holds of each family or stream."""

    number: int
    level: int
    first_batch: int
    last_batch: int
    size: int
    parts: list[PagePart]

    def to_list(self) -> list[Any]:
        parts = [[part.owner, part.since, part.until, part.size] for part in self.parts]
        return [self.number, self.level, self.first_batch, self.last_batch, self.size, parts]

    @staticmethod
    def of_list(values: list[Any]) -> Page:
        number, level, first_batch, last_batch, size, parts = values
        return Page(number, level, first_batch, last_batch, size, [PagePart(*part) for part in parts])


@dataclass
class Head:
    """What the store holds of a bucket besides its pages."""

    version: int
    recent: list[tuple[int, str]]  # micro-batch and token of the last commits
    pages: list[Page] = field(default_factory=list)
    next_page: int = 0
    snapshot_page: int | None = None
    body: dict[str, Any] = field(default_factory=dict)
    written: int = 0  # bytes that the last micro-batch wrote

    @property
    def batch(self) -> int:
        return self.recent[-1][0]

    @property
    def bytes_stored(self) -> int:
        return sum(page.size for page in self.pages)

    def packed(self) -> bytes:
        fields = HEAD.to_dict(self) | {"pages": [page.to_list() for page in self.pages]}
        return dumped({FORMAT: HEAD_FORMAT} | fields)

    @staticmethod
    def unpacked(data: bytes) -> Head:
        fields = loaded(data)
        check_format(fields, HEAD_FORMAT, "the head of a bucket")
        head = HEAD.of_dict(fields)
        head.pages = [Page.of_list(page) for page in fields["pages"]]
        head.recent = [(batch, token) for batch, token in fields["recent"]]
        return head

    def add_page(
        self, store: Store, data: bytes, level: int, batches: tuple[int, int], parts: list[PagePart] | None = None
    ) -> Page:
        page = Page(self.next_page, level, *batches, 0, [])
        self.pages.append(page)
        self.next_page += 1
        self.write_page(store, page, data, parts or [])
        return page

    def write_page(self, store: Store, page: Page, data: bytes, parts: list[PagePart]) -> None:
        """Replaces the content of a page."""
        store.set_page(page.number, data)
        page.size, page.parts = len(data), parts
        self.written += len(data)

    def drop(self, store: Store, pages: list[Page]) -> None:
        for page in pages:
            store.drop_page(page.number)
            self.pages.remove(page)
            if self.snapshot_page == page.number:
                self.snapshot_page = None

    def begin_commit(self, version: int, batch: int) -> str:
        """Adds a commit to `recent`; returns its token. `commit` writes it."""
        self.version = version
        token = uuid.uuid4().hex[:16]
        self.recent = [*self.recent[-(RECENT - 1) :], (batch, token)]
        return token

    def commit(self, store: Store) -> None:
        """Writes the head. Call it last, when all pages are written."""
        data = self.packed()
        store.set_head(data)
        self.written += len(data)


HEAD = Record(Head, "version recent pages next_page snapshot_page body", unwritten="written")

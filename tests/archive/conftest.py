"""The disk is not asked to keep what tests write: a thousand updates would take minutes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from panewise.state.durable_files import FileSystem


@pytest.fixture(autouse=True, scope="package")
def _quick_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileSystem, "sync", lambda *given: None)
        patch.setattr(FileSystem, "sync_folder", lambda *given: None)
        yield

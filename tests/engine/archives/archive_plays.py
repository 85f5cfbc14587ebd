"""Streams at random for archives: what is pushed, and which of it an archive has to have."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from panewise.archive.manifest import Manifest, Manifests
from panewise.engine.engine import Engine

SECOND = 1_000_000
STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, n INT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 3 SECONDS)"
DELAY = 3 * SECOND
KEYS = ("a", "b", "c", None)


@st.composite
def pushes(draw: st.DrawFn, most: int = 12) -> list[list[dict[str, Any]]]:
    """Batches whose times go forward, with rows out of order, late ones, ties, and pauses longer than a slot."""
    now, batches, number = 0, [], 0
    for _ in range(draw(st.integers(1, most))):
        now += draw(st.sampled_from([0, 1, 2, 5, 40])) * SECOND
        batch = []
        for _ in range(draw(st.integers(1, 6))):
            ts = max(0, now + draw(st.integers(-5, 4)) * SECOND + draw(st.sampled_from([0, 0, 1, 500_000])))
            batch.append({"ts": ts, "k": draw(st.sampled_from(KEYS)), "n": draw(st.integers(-2, 2)), "v": number})
            number += 1
        batches.append(batch)
    return batches


@dataclass
class Plain:
    """The rows that a stream has taken in, in a list."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    watermark: int = -(2**63)
    greatest: int = -(2**63)

    def push(self, batch: list[dict[str, Any]]) -> None:
        for row in batch:
            if row["ts"] >= self.watermark:
                self.rows.append(row)
            self.greatest = max(self.greatest, row["ts"])
            self.watermark = max(self.watermark, self.greatest - DELAY)

    def archived(self, lifetime: int) -> list[dict[str, Any]]:
        """What the watermark has passed, and has not expired."""
        return [row for row in self.rows if row["ts"] < self.watermark <= row["ts"] + lifetime]


def listed(table: pa.Table | None) -> list[tuple[Any, ...]]:
    assert table is not None
    columns = [
        c.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(c.type) else c.to_pylist() for c in table.columns
    ]
    return sorted(zip(*columns, strict=True), key=repr)


def as_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(((row["ts"], row["k"], row["n"], row["v"]) for row in rows), key=repr)


def kill(engine: Engine) -> None:
    """The process is gone: nothing is written any more, and the locks are free."""
    for keeper in engine.archives.keepers.values():
        if keeper.archive is not None:
            keeper.archive.close()
    assert engine.durability is not None
    engine.durability.close(None)


class Died(BaseException):
    """The process ends here."""


def die_in_an_update(engine: Engine, committed: bool) -> None:
    """Rows that wait are processed; the next version of an archive is the last thing that happens, or the first not."""
    publish = Manifests.publish

    def last(manifests: Manifests, manifest: Manifest) -> None:
        if committed:
            publish(manifests, manifest)
        raise Died

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Died):
        patch.setattr(Manifests, "publish", last)
        engine.stats()

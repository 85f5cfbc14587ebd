"""Rows as the archives of a pipeline have them."""

from __future__ import annotations

import pyarrow as pa

from panewise.archive.sought import TIME
from panewise.spark.archives.archive_target import with_lifetimes
from panewise.temporal import INSTANT_MAX


def test_the_last_instant_has_a_life_too() -> None:
    times = pa.array([0, INSTANT_MAX - 5, INSTANT_MAX, INSTANT_MAX + 1]).cast(TIME)
    lives = with_lifetimes(pa.table({"ts": times}), "ts", lifetime_us=5, after=0)
    assert lives["_inserted"].cast(pa.int64()).to_pylist() == [INSTANT_MAX - 5, INSTANT_MAX]
    assert lives["_expires"].cast(pa.int64()).to_pylist() == [INSTANT_MAX, INSTANT_MAX + 1]

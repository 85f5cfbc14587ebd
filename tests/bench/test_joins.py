"""The benchmarks of joins count as many pairs as an independent join of the same rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bench import joins, spark_joins
from bench.measure import isolated_on_all_cores


@pytest.mark.parametrize(("streams", "keys"), [(2, 1_000), (4, 100_000)])
def test_pairs_agree(streams: int, keys: int) -> None:
    row = joins.measure(streams=streams, keys=keys, rounds=1, warm_up=joins.PUSH)["row"]
    assert row["agrees"]
    assert row["rows"] == streams * joins.PUSH


def test_a_pair_too_many_is_noticed() -> None:
    batches = {(stream, 0): joins.rows_of(stream, 0, 500, 10) for stream in range(2)}
    few = joins.pairs(batches, 2)
    batches[1, 500] = pa.record_batch({"ts": batches[1, 0]["ts"][:1], "k": batches[0, 0]["k"][:1], "v": pa.array([0])})
    assert joins.pairs(batches, 2) > few > 0


@pytest.mark.soak
def test_the_join_on_spark_agrees() -> None:
    figure = isolated_on_all_cores(spark_joins.ours, file_rows=3_000, files=1)
    assert figure["pairs"] == figure["expected"] > 0

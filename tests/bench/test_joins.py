"""The benchmarks of joins count as many pairs as an independent join of the same rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bench import joins, shared_joins, spark_joins
from bench.measure import isolated_on_all_cores
from tests.now_or_soak import soaking


@pytest.mark.parametrize(("streams", "keys", "push"), [(2, 1_000, joins.PUSH), (4, 100_000, joins.PUSH), (4, 1_000, 4)])
def test_pairs_agree(streams: int, keys: int, push: int) -> None:
    row = joins.measure(streams=streams, keys=keys, rounds=1, warm_up=joins.PUSH, push=push)["row"]
    assert row["agrees"]
    assert row["rows"] == streams * push
    assert row["results"] > 0


def test_a_pair_too_many_is_noticed() -> None:
    batches = {(stream, 0): joins.rows_of(stream, 0, 500, 10) for stream in range(2)}
    few = joins.pairs(batches, 2)
    batches[1, 500] = pa.record_batch({"ts": batches[1, 0]["ts"][:1], "k": batches[0, 0]["k"][:1], "v": pa.array([0])})
    assert joins.pairs(batches, 2) > few > 0


@pytest.mark.soak
def test_the_join_on_spark_agrees() -> None:
    figure = isolated_on_all_cores(spark_joins.ours, file_rows=3_000, files=1)
    assert figure["pairs"] == figure["expected"] > 0


@pytest.mark.parametrize("name", soaking(shared_joins.SETS, now=["by group"]))
def test_windows_together_agree_with_each_alone(name: str) -> None:
    row = shared_joins.measure(name=name, queries=3, rounds=1, repeat=1)
    assert row["agrees"]
    assert row["results"] > 0

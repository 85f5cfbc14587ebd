"""The results of all queries together have one limit in memory: older ones are on the disk, or given up and counted."""

from __future__ import annotations

import pytest

from tests.serve.http.serving import NDJSON, served

QUERIES = 10
TOTAL = 200_000
DEFINED = "CREATE STREAM t (ts TIMESTAMP, k BIGINT, v STRING);" + ";".join(
    f"CREATE QUERY q{number} AS SELECT k, v FROM t [NOW] WHERE k >= {number}" for number in range(QUERIES)
)


def push(client, first: int, count: int) -> None:
    rows = "\n".join(f'{{"ts": {1_000 * n}, "k": {n + 100}, "v": "{"x" * 100}"}}' for n in range(first, first + count))
    assert client.post("/v1/streams/t/rows", content=rows, headers=NDJSON).status_code == 200


def numbers(client, query: str) -> tuple[int, int]:
    page = client.get(f"/v1/queries/{query}/results", params={"limit": 1}).json()
    return page["held_from"], page["end"]


@pytest.mark.parametrize("on_disk", [True, False])
def test_what_all_queries_hold_in_memory_is_limited(on_disk, tmp_path):
    folder = {"path": tmp_path} if on_disk else {}
    with served(keep_total=TOTAL, keep_rows=2_000, **folder) as (client, backend):
        assert client.post("/v1/statements", json={"text": DEFINED}).status_code == 200
        for first in range(0, 1_000, 100):
            push(client, first, 100)
            backend.take_results()
        stats = client.get("/v1/stats").json()["results"]
        metrics = client.get("/metrics").text
        held = [numbers(client, f"q{number}") for number in range(QUERIES)]
        assert stats["bytes_in_memory"] <= TOTAL + (0 if on_disk else QUERIES * 250 * 200)
        assert f"panewise_results_memory_bytes {float(stats['bytes_in_memory'])}" in metrics
        if on_disk:
            assert stats["bytes"] > 5 * TOTAL
            assert stats["rows_given_up"] == 0
            assert {first for first, _ in held} == {0}
            rows = client.get("/v1/queries/q3/results", params={"start": 0, "limit": 5_000}).json()["rows"]
            assert [row[2] for row in rows if row[1] > 0] == list(range(100, 100 + len(rows) // 2 + len(rows) % 2))
        else:
            assert stats["rows_given_up"] == sum(first for first, _ in held) > 0
            assert f"panewise_results_given_up_total {float(stats['rows_given_up'])}" in metrics
            assert client.get("/v1/queries/q3/results", params={"start": 0}).status_code == 410

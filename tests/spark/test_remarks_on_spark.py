"""What a pipeline says of its data: late rows, and sums that do not fit, are told to who fetches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import panewise as pw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SECOND = 1_000_000


def test_late_rows_are_remarked_on(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pw.SparkPipeline(spark, checkpoint=str(tmp_path), name="set_aside")
    pipeline.execute(
        "CREATE STREAM t (ts TIMESTAMP, v BIGINT);"
        "CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND];"
    )
    handle = pipeline.start()
    try:
        pipeline.push("t", [{"ts": 60 * SECOND, "v": 1}])
        handle.process_all()
        pipeline.push("t", [{"ts": 20 * SECOND, "v": 1}, {"ts": 61 * SECOND, "v": 1}])
        handle.process_all()
        with pytest.warns(pw.LateRowsWarning, match="1 of 3 rows of stream 't'.*- INTERVAL 40 SECONDS") as caught:
            handle.fetch("q")
        assert caught[0].filename == __file__
        assert handle.stats()["streams"]["t"]["late_remark"] == str(caught[0].message)
        with pytest.warns(pw.LateRowsWarning, match=r"keeps no late rows \(1 were dropped so far\)"):
            assert handle.late_rows("t").num_rows == 0
    finally:
        handle.stop()


def test_rows_of_mixed_types_are_judged_one_by_one_and_remarked_on(spark: SparkSession, tmp_path: Path) -> None:
    """Of a file and pushed: `epoch` holds for all of them, and a bad row is told with its file."""
    (tmp_path / "in").mkdir()
    lines = ['{"ts": 60, "v": 1}', '{"ts": "61", "v": "2"}', '{"ts": 62, "v": "x"}', '{"ts": 63}']
    (tmp_path / "in" / "rows.json").write_text("\n".join(lines) + "\n")
    pipeline = pw.SparkPipeline(spark, checkpoint=str(tmp_path / "kept"), name="mixed")
    windows = "[RANGE 1 MINUTE SLIDE 1 MINUTE]"
    pipeline.execute(
        f"CREATE STREAM f (ts TIMESTAMP, v BIGINT) WITH (connector = 'json', path = '{tmp_path}/in', epoch = 'seconds',"
        " on_bad_row = 'skip');"
        "CREATE STREAM p (ts TIMESTAMP, v BIGINT) WITH (epoch = 'seconds', on_bad_row = 'skip');"
        f"CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(v) AS s FROM f {windows};"
        f"CREATE QUERY pushed AS SELECT COUNT(*) AS n, SUM(v) AS s FROM p {windows};"
    )
    handle = pipeline.start()
    try:
        pipeline.push("p", [{"ts": 60, "v": 1}, {"ts": "61", "v": "2"}, {"ts": 62.5, "v": "x"}, {"ts": 63}])
        handle.process_all()
        for stream in ("f", "p"):
            handle.advance(stream, 120 * SECOND)
        handle.process_all()
        with pytest.warns(pw.BadRowsWarning, match="1 of 4 rows of stream '[fp]' were bad and set aside"):
            found = handle.fetch("q")
        for table in (found, handle.fetch("pushed")):
            assert [(row["n"], row["s"]) for row in table.to_pylist() if row["n"]] == [(3, 3)]
        assert "1 of 4 rows" in handle.stats()["streams"]["f"]["bad_remark"]
        for stream in ("f", "p"):
            assert handle.bad_rows(stream)["reason"].to_pylist() == ["v = 'x' is not a BIGINT"]
        assert handle.stats()["streams"]["f"]["bad_remark"] is None
        handle.stop()
        fails = pw.SparkPipeline(spark, checkpoint=str(tmp_path / "failing"), name="failing")
        options = f"connector = 'json', path = '{tmp_path}/in', epoch = 'seconds'"
        fails.execute(f"CREATE STREAM f (ts TIMESTAMP, v BIGINT) WITH ({options});")
        fails.execute(f"CREATE QUERY q AS SELECT SUM(v) AS s FROM f {windows};")
        handle = fails.start()
        with pytest.raises(Exception, match=r"v = 'x' is not a BIGINT(?s:.*)the file: '.*rows\.json', row 3"):
            handle.process_all()
    finally:
        handle.stop()


def test_sums_that_overflow_are_null_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pw.SparkPipeline(spark, checkpoint=str(tmp_path), name="overflowing")
    pipeline.execute(
        "CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT);"
        "CREATE QUERY tree AS SELECT k, SUM(v) AS s FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k;"
        "CREATE QUERY live AS SELECT k, SUM(v) AS s FROM t [RANGE 1 SECOND] GROUP BY k;"
        "CREATE QUERY fine AS SELECT k, COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k;"
    )
    handle = pipeline.start()
    try:
        pipeline.push("t", [{"ts": 0, "k": k, "v": 2**63 - 1} for k in (1, 1, 2)])
        pipeline.push("t", [{"ts": 5 * SECOND, "k": 1, "v": 3}])
        handle.process_all()
        handle.advance("t", 10 * SECOND)
        handle.process_all()
        for query in ("tree", "live"):
            with pytest.warns(pw.AnswerOverflowWarning, match=f"query '{query}'"):
                sums = handle.fetch(query)["s"].to_pylist()
            assert {None, 2**63 - 1, 3} == set(sums)
        stats = handle.stats()["queries"]
        assert {name: found["status"] for name, found in stats.items()} == dict.fromkeys(stats, "RUNNING")
        assert (stats["tree"]["overflows"], stats["fine"]["overflows"]) == (1, 0)
        assert stats["tree"]["reason"] == "answers of SUM that are outside their type, and NULL: 1"
        assert stats["live"]["overflows"] > 0
        shown = pipeline.execute("SHOW QUERIES;")
        assert shown is not None
        reasons = dict(zip(shown["name"].to_pylist(), shown["reason"].to_pylist(), strict=True))
        assert (reasons["tree"], reasons["fine"]) == (stats["tree"]["reason"], "")
    finally:
        handle.stop()

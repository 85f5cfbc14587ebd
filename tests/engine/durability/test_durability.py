"""Durable engines: what the next engine on a folder knows, and producers that push again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panewise as pw
from panewise.engine.ingest.journal import Taken
from panewise.engine.ingest.window_limit import Extent
from tests.engine.durability.small_durable import QUERY, SECOND_US, STREAM, begun, row, table, totals

# -- restarts ----------------------------------------------------------------------------------------------------------


def test_goes_on_where_the_last_engine_ended(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    engine.push("s", [row(0, 1), row(1, 2), row(2, 4)])
    assert totals(engine) == [1, 3]
    engine.push("s", row(3, 8))
    engine.close(snapshot=False)
    with pw.Engine(tmp_path) as engine:
        assert engine.stats()["durability"]["records_replayed"] == 5
        assert totals(engine) == [6]
        engine.push("s", row(4, 16))
    with pw.Engine(tmp_path) as engine:
        assert engine.stats()["durability"]["records_replayed"] == 0
        assert totals(engine) == [12]
        assert totals(engine) == []


def test_every_way_to_push(tmp_path: Path) -> None:
    pushes: list[Any] = [
        row(0, 1),
        [row(1, 2)],
        {"ts": SECOND_US * 2, "k": None, "v": None},
        table(row(3, 4), row(3.5, 5)),
        pa.concat_tables([table(row(4, 4)), table(row(5, 5))]),
        table(row(6, 7), row(6, 8)).to_batches()[0].slice(1),
        table(row(7, 1), row(7, 2)).set_column(1, "k", pa.array(["x", "y"]).dictionary_encode()),
        [],
        [row(n, n) for n in range(8, 12)],
    ]
    undisturbed = pw.Engine()
    undisturbed.execute(f"{STREAM}; {QUERY}")
    durable = begun(tmp_path)
    for data in pushes:
        undisturbed.push("s", data)
        durable.push("s", data)
        durable.close(snapshot=False)
        durable = pw.Engine(tmp_path)
    assert durable.stats()["streams"]["s"]["rows"] == undisturbed.stats()["streams"]["s"]["rows"] == 14
    assert totals(durable) == totals(undisturbed)


def test_a_snapshot_takes_the_place_of_the_log(tmp_path: Path) -> None:
    engine = begun(tmp_path, snapshot_every=20_000)
    # A snapshot of this engine has more bytes than that, and the next one comes after as many bytes of log.
    for second in range(300):
        engine.push("s", [row(second, 1) for _ in range(40)])
    stats = engine.stats()["durability"]
    assert stats["snapshots"] >= 2
    assert stats["log_bytes"] < max(20_000, stats["snapshot_bytes"]) + 4_000
    assert {file.name.split("-")[0] for file in tmp_path.iterdir()} == {"LOCK", "log", "snapshot"}
    assert len(list(tmp_path.iterdir())) == 3
    engine.close(snapshot=False)
    assert sum(totals(pw.Engine(tmp_path))) == 40 + 298 * 80


def test_what_was_shed_stays_shed(tmp_path: Path) -> None:
    engine = pw.Engine(tmp_path)
    engine.execute(f"{STREAM} WITH (shedding = 'random', max_rate = 100)")
    engine.execute("CREATE QUERY c AS SELECT COUNT(*) AS n, SUM(v) AS s FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    for second in range(5):
        engine.push("s", [row(second, v) for v in range(400)])
    before = engine.stats()["streams"]["s"]
    assert before["shed_rows"] > 0
    shutil.copytree(tmp_path, tmp_path / "copy")
    copy = pw.Engine(tmp_path / "copy")
    after = copy.stats()["streams"]["s"]
    for name in ("rows", "taken_rows", "shed_rows", "shed", "watermark"):
        assert after[name] == before[name]
    assert copy.results("c").to_pylist() == engine.results("c").to_pylist() != []


def test_a_push_that_is_logged_twice_counts_once(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    engine.push("s", row(0), producer="p", sequence=1)
    assert engine.durability is not None
    for _ in range(2):
        engine.durability.took_row("s", [0, "a", 1], ("p", 1))
    engine.durability.took("s", Taken(table(row(0)).to_batches(), [], Extent(0, 0), {}, ("p", 1)))
    engine.close(snapshot=False)
    assert pw.Engine(tmp_path).stats()["streams"]["s"]["rows"] == 1


def test_a_table_keeps_the_rows_that_its_file_had(tmp_path: Path) -> None:
    file = tmp_path / "names.parquet"
    pq.write_table(pa.table({"k": ["a", "b"], "name": ["first", "second"]}), file)
    engine = pw.Engine(tmp_path / "engine")
    engine.execute(
        f"CREATE TABLE names (k STRING, name STRING) NON RETROACTIVE WITH (connector = 'parquet', path = '{file}')"
    )
    engine.close(snapshot=False)
    pq.write_table(pa.table({"k": ["c"], "name": ["third"]}), file)
    engine = pw.Engine(tmp_path / "engine")
    assert engine.tables["names"].batch().column("name").to_pylist() == ["first", "second"]
    engine.close()
    file.unlink()
    assert pw.Engine(tmp_path / "engine").tables["names"].row_count == 2


def test_aggregates_of_users_are_registered_first(tmp_path: Path) -> None:
    def prepare(engine: pw.Engine) -> None:
        engine.register_aggregate(
            "LATEST_SUM",
            lift=lambda v: (v,),
            combine=lambda a, b: (a[0] + b[0],),
            lower=lambda a: a[0],
            identity=(0.0,),
        )

    engine = pw.Engine(tmp_path, prepare=prepare)
    engine.execute(STREAM)
    engine.execute("CREATE QUERY u AS SELECT LATEST_SUM(v) AS s FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    engine.close(snapshot=False)
    with pytest.raises(pw.DurabilityError, match=r"(?s)cannot be replayed.*LATEST_SUM.*prepare="):
        pw.Engine(tmp_path)
    engine = pw.Engine(tmp_path, prepare=prepare)
    engine.push("s", [row(0, 3), row(1, 4)])
    assert engine.results("u")["s"].to_pylist() == [3.0]


def test_a_snapshot_is_restored_into_a_durable_engine(tmp_path: Path) -> None:
    plain = pw.Engine()
    plain.execute(f"{STREAM}; {QUERY}")
    plain.push("s", [row(0, 1), row(1, 2), row(2, 4)], producer="p", sequence=1)
    engine = pw.Engine.restore(plain.snapshot(), pw.Engine(tmp_path))
    engine.push("s", row(3, 8))
    engine.close(snapshot=False)
    engine = pw.Engine(tmp_path)
    assert totals(engine) == [1, 3, 6]
    assert engine.last_sequence("s", "p") == 1


def test_a_query_of_a_name_that_another_had(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    for _ in range(2):
        engine.push("s", [row(0), row(1), row(2)])
        engine.flush()
        before = totals(engine)
        engine.execute(f"DROP QUERY q; DROP STREAM s; {STREAM}; {QUERY}")
    engine.push("s", [row(0), row(1), row(2)])
    engine.flush()
    assert totals(engine) == before
    engine.close(snapshot=False)
    assert totals(pw.Engine(tmp_path)) == []


@pytest.mark.parametrize("durable", [False, True])
def test_what_was_not_taken_is_handed_over_again(durable: bool, tmp_path: Path) -> None:
    engine = begun(tmp_path) if durable else pw.Engine()
    if not durable:
        engine.execute(f"{STREAM}; {QUERY}")
    given: list[tuple[list[int], int]] = []

    def take(table: pa.Table, first: int) -> None:
        given.append((table["total"].to_pylist(), first))
        if len(given) % 2:
            raise OSError("the sink is full")

    assert engine.hand_over("q", take) == 0
    for second in range(4):
        engine.push("s", row(second, second))
    with pytest.raises(OSError, match="the sink is full"):
        engine.hand_over("q", take)
    engine.push("s", row(4, 4))
    assert engine.hand_over("q", take) == 4
    engine.push("s", row(5, 5))
    with pytest.raises(OSError, match="the sink is full"):
        engine.hand_over("q", take)
    if durable:
        engine.close(snapshot=False)
        engine = pw.Engine(tmp_path)
    assert engine.hand_over("q", take) == 1
    assert given == [([0, 1, 3], 0), ([0, 1, 3, 5], 0), ([7], 4), ([7], 4)]
    assert totals(engine) == []


# -- producers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
def test_a_repeated_push_is_ignored(durable: bool, tmp_path: Path) -> None:
    engine = begun(tmp_path) if durable else pw.Engine()
    if not durable:
        engine.execute(f"{STREAM}; {QUERY}")
    for sequence in (1, 1, 2, 1, 2, 3):
        engine.push("s", row(sequence, sequence), producer="p", sequence=sequence)
    engine.push("s", [row(3, 10)], producer="other", sequence=1)
    assert engine.stats()["streams"]["s"]["rows"] == 4
    assert engine.last_sequence("s", "p") == 3
    assert engine.last_sequence("s", "nobody") == 0
    restored = pw.Engine.restore(engine.snapshot())
    restored.push("s", row(3, 3), producer="p", sequence=3)
    assert restored.stats()["streams"]["s"]["rows"] == 4


@pytest.mark.parametrize(
    ("stamp", "message"),
    [
        ({"producer": "p", "sequence": 3}, "pushes number 3 to 's', and 1 was the last"),
        ({"producer": "new", "sequence": 2}, "there was none before"),
        ({"producer": "p", "sequence": 0}, "from 1 on, not 0"),
        ({"producer": "p", "sequence": True}, "from 1 on, not True"),
        ({"producer": "p"}, "both a producer and a sequence"),
        ({"sequence": 2}, "both a producer and a sequence"),
    ],
)
def test_a_number_that_cannot_be(stamp: dict[str, Any], message: str) -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.push("s", row(0), producer="p", sequence=1)
    with pytest.raises(pw.DataError, match=message):
        engine.push("s", row(1), **stamp)
    assert engine.stats()["streams"]["s"]["rows"] == 1


def test_a_refused_push_keeps_its_number(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    with pytest.raises(pw.DataError, match="is not a BIGINT"):
        engine.push("s", {"ts": 0, "k": "a", "v": "no"}, producer="p", sequence=1)
    engine.push("s", row(0), producer="p", sequence=1)
    engine.close(snapshot=False)
    assert pw.Engine(tmp_path).stats()["streams"]["s"]["rows"] == 1


@pytest.mark.parametrize("every", [-1, 0, 1.5, True, "1000", None])
def test_snapshots_come_after_a_positive_number_of_bytes(every: Any, tmp_path: Path) -> None:
    for path in (tmp_path / "kept", None):
        with pytest.raises(pw.PlanError, match="a whole number of at least 1"):
            pw.Engine(path, snapshot_every=every)
    assert not (tmp_path / "kept").exists()

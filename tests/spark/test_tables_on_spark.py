"""Tables on Spark: as the embedded engine has them, at the version of the micro-batch, whatever fails in between."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.errors import CatalogError, DataError
from panewise.spark.buckets import row_journal
from panewise.spark.tables.table_log import NEWEST
from tests.engine.random_relations import CREATE, SECOND, random_rows
from tests.engine.tables.random_tables import STREAMS, TABLES, Play
from tests.now_or_soak import soaking
from tests.spark.local_tables import JOIN, NAMES, TRADES, TableRun, lines, names_at, started
from tests.spark.test_joins_on_spark import ARROW, rows_of


class Twins:
    """An engine and a run that get the same rows and statements; a push is a micro-batch."""

    def __init__(self, place: Path, seed: int | None = None, forgetful: bool = False) -> None:
        self.engine = pw.Engine()
        self.run = TableRun(place, seed, forgetful=forgetful)
        self.found: dict[str, list[pa.Table]] = {}
        self.restarted = False
        self.newest: dict[str, int] = {}
        for stream in STREAMS:
            self.execute(CREATE.format(stream))
        for name, (columns, retroactive) in TABLES.items():
            self.execute(f"CREATE TABLE {name} ({columns}){'' if retroactive else ' NON RETROACTIVE'}")

    def execute(self, text: str) -> bool:
        """Whether both have accepted the statement; otherwise both have refused it in the same words."""
        refused = _refusal(self.engine, text)
        if self.restarted and refused is not None and "just taken away" in refused:
            return False  # which keys that are is not known to another driver
        assert _refusal(self.run, text) == refused, text
        return refused is None

    def restart(self) -> None:
        self.run.start()
        self.restarted = True

    def push(self, stream: str, rows: list[dict[str, Any]]) -> None:
        self.newest[stream] = max([self.newest.get(stream, 0), *(row["ts"] for row in rows)])
        self.engine.push(stream, rows)
        self.run.push(stream, pa.RecordBatch.from_pylist(rows, ARROW))
        self.process()

    def advance(self, stream: str, until: int) -> None:
        self.engine.advance(stream, until)
        self.run.advance(stream, until)
        self.process()

    def settle(self) -> None:
        """No row waits: on Spark a query that comes now does not see those that the engine still holds back."""
        for stream, newest in self.newest.items():
            self.advance(stream, newest + 1)

    def process(self) -> None:
        for name, table in self.run.run().items():
            self.found.setdefault(name, []).append(table)

    def compare(self, *queries: str) -> int:
        """How many results are the same."""
        total = 0
        for name in queries:
            expected = self.engine.results(name)
            tables = [table.cast(expected.schema) for table in self.found.pop(name, [])]
            assert rows_of(pa.concat_tables([expected.schema.empty_table(), *tables])) == rows_of(expected), name
            total += expected.num_rows
        for name in TABLES:
            asked = [host.execute(f"SELECT * FROM {name}") for host in (self.engine, self.run)]
            assert asked[0] == asked[1]
        return total


def _refusal(host: pw.Engine | TableRun, text: str) -> str | None:
    try:
        host.execute(text)
    except DataError as problem:
        return str(problem)
    return None


def statement(chance: Random, name: str) -> str:
    value = chance.choice(("0", "1", "2", "3"))
    where = chance.choice(("k = 1", "v > 1", "w = 'p'", f"k = {value}"))
    match chance.choice(("insert", "insert", "update", "delete")):
        case "insert":
            rows = ((value, chance.randint(0, 3), chance.choice("pq")) for _ in range(chance.choice((1, 1, 2))))
            return f"INSERT INTO {name} VALUES {', '.join(f'({k}, {v}, {w!r})' for k, v, w in rows)}"
        case "update":
            column = chance.choice("kvv")
            return f"UPDATE {name} SET {column} = {column} + 1 WHERE {where}"
    return f"DELETE FROM {name} WHERE {where}"


def check(seed: int, place: Path) -> tuple[int, int, int]:
    """How many results were the same, how many statements were accepted, and how many refused."""
    chance = Random(seed)
    twins = Twins(place, seed if seed % 2 else None, forgetful=seed % 4 == 0)
    plays = [Play(chance) for _ in range(3)]
    queries = [f"q{number}" for number in range(len(plays))]
    read = sorted({name for play in plays for name in play.tables})
    done = [0, 0]
    for name in read:
        twins.execute(f"INSERT INTO {name} VALUES (1, 2, 'p'), (2, NULL, 'q'), (3, 3, 'p')")
    coming = [f"CREATE QUERY {name} AS {play.cql()}" for name, play in zip(queries, plays, strict=True)]
    twins.execute(coming.pop())
    twins.execute(coming.pop())
    left = {stream: parts for stream, parts in random_rows(chance, 40).items() if stream in STREAMS}
    while any(left.values()):
        for _ in range(chance.randint(0, 3)):
            done[twins.execute(statement(chance, chance.choice(read)))] += 1
        if coming and chance.random() < 0.2:
            twins.settle()
            twins.execute(coming.pop())
        if chance.random() < 0.2:
            twins.restart()
        stream = chance.choice([name for name, parts in left.items() if parts])
        if rows := left[stream].pop(0):
            twins.push(stream, rows)
        elif chance.random() < 0.5:
            twins.process()
    queries = queries[len(coming) :]
    for stream in STREAMS:
        twins.advance(stream, 60 * SECOND)
    return twins.compare(*queries), done[1], done[0]


@pytest.mark.parametrize("seed", soaking(range(12), now=range(5)))
def test_as_the_engine_says(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 3 == 0:
        monkeypatch.setattr(row_journal, "JOURNAL_LEAST", 4_000)  # so that buckets come back from snapshots too
    check(seed, tmp_path)


def test_much_is_compared(tmp_path: Path) -> None:
    done = [check(seed, tmp_path / str(seed)) for seed in range(100, 106)]
    results, accepted, refused = map(sum, zip(*done, strict=True))
    assert results > 100 and accepted > 30 and refused > 5


# -- one table, by hand --------------------------------------------------------------------------------------------


def test_a_change_is_seen_by_the_next_micro_batch_and_stops_nothing(tmp_path: Path) -> None:
    run = started(tmp_path, "INSERT INTO names VALUES ('a', 'Anna')")
    assert names_at(run, 1, "a", "b") == ["Anna"]
    versions = len(run.program.versions)
    run.execute("UPDATE names SET name = 'Anne' WHERE k = 'a'; INSERT INTO names VALUES ('b', 'Ben')")
    assert len(run.program.versions) == versions
    assert names_at(run, 2, "a", "b") == ["Anne", "Ben"]
    run.execute("DELETE FROM names WHERE name = 'Ben'")
    assert names_at(run, 3, "a", "b") == ["Anne"]


def test_a_micro_batch_that_is_done_again_sees_what_it_saw(tmp_path: Path) -> None:
    run = started(tmp_path, "INSERT INTO names VALUES ('a', 'Anna')")
    assert names_at(run, 1, "a") == ["Anna"]
    run.pins().pin(run.batch, None)  # the driver dies when the micro-batch has been handed over
    run.start()
    run.execute("UPDATE names SET name = 'Anne'")
    assert names_at(run, 2, "a") == ["Anna"]
    assert names_at(run, 3, "a") == ["Anne"]


def test_all_tables_of_a_call_change_together(tmp_path: Path) -> None:
    run = started(tmp_path, "CREATE TABLE other (k STRING) NON RETROACTIVE")
    run.execute("INSERT INTO names VALUES ('a', 'Anna'); INSERT INTO other VALUES ('x')")
    run.run()
    before = run.handle.table_stats()
    with pytest.raises(DataError, match="two rows of 'names' would have the key k = 'b'"):
        run.execute("INSERT INTO other VALUES ('y'); DELETE FROM names; INSERT INTO names VALUES ('b', ''), ('b', '')")
    assert run.handle.table_stats() == before
    run.run()
    after = run.handle.table_stats()
    assert {name: table["rows"] for name, table in after.items()} == {"names": 0, "other": 2}
    assert all(after[name]["version"] == before[name]["version"] + 1 for name in after)


def test_the_log_keeps_what_is_needed_and_no_more(tmp_path: Path) -> None:
    run = started(tmp_path)
    text = "x" * 1_000
    for second in range(1, 60):
        run.execute(f"INSERT INTO names VALUES {', '.join(f'({str(second * 10 + i)!r}, {text!r})' for i in range(10))}")
        run.execute(f"DELETE FROM names WHERE k = '{second * 10 + 3}'")
        if second % 3 == 0:
            assert names_at(run, second, str(second * 10), str(second * 10 + 3), "10") == [text, text]
    (place,) = (tmp_path / "tables").glob("names_*")
    sizes = [file.stat().st_size for file in place.iterdir()]
    assert sum(sizes) < 4 * 59 * 9 * 1_050 and len(sizes) < 60
    run.start()
    assert run.execute("SELECT COUNT(*) AS n FROM names").to_pylist() == [{"n": 59 * 9}]
    run.execute("CREATE QUERY p AS SELECT t.k, names.k AS found FROM t [RANGE 1 SECOND], names WHERE t.k = names.k")
    names_at(run, 70, "10", "13", "594")
    run.advance("t", 80 * SECOND)
    run.execute("DROP QUERY q; DROP QUERY p; DROP TABLE names")
    run.run()
    run.run()
    assert not list(place.iterdir())


def test_a_bucket_that_was_not_asked_for_long_catches_up(tmp_path: Path) -> None:
    run = started(tmp_path, "INSERT INTO names VALUES ('a', '0'), ('b', '0')")
    assert names_at(run, 1, "a") == ["0"]
    run.execute("CREATE STREAM other (ts TIMESTAMP)")
    for number in range(1, 60):
        run.execute(f"UPDATE names SET name = '{number}' WHERE k = 'a'")
        # A micro-batch that the bucket gets no packet in.
        run.posted.extend(int(name.split(".")[0]) for name in run.folder.names("inbox"))
        run.advance("other", number)
        run.run()
    assert names_at(run, 2, "a", "b") == ["0", "59"]


# -- restarts ------------------------------------------------------------------------------------------------------

DEFINED = f"{TRADES}; {NAMES}; INSERT INTO names VALUES ('a', 'Anna'); {JOIN};"


def test_a_restart_goes_on_with_the_rows_of_the_checkpoint(tmp_path: Path) -> None:
    run = TableRun(tmp_path)
    run.start(DEFINED)
    assert names_at(run, 1, "a") == ["Anna"]
    run.execute("UPDATE names SET name = 'Anne'")
    for statements in ("", DEFINED, DEFINED.replace("INSERT", "-- INSERT").replace("; CREATE Q", ";\nCREATE Q")):
        run.start(statements)  # learnt, defined again, and without the rows
        assert run.execute("SELECT name FROM names").to_pylist() == [{"name": "Anne"}]
    assert names_at(run, 2, "a") == ["Anne"]


def test_other_rows_than_the_checkpoints_are_refused_or_replace_them(tmp_path: Path) -> None:
    run = TableRun(tmp_path)
    run.start(DEFINED)
    assert names_at(run, 1, "a") == ["Anna"]
    others = DEFINED.replace("'Anna'", "'Ada'")
    with pytest.raises(CatalogError, match="the checkpoint has other rows of table names than these statements insert"):
        run.start(others)
    run.start(others, replace=True)
    assert names_at(run, 2, "a") == ["Ada"]


def test_a_driver_that_dies_while_it_logs_has_changed_nothing(tmp_path: Path) -> None:
    run = started(tmp_path, "INSERT INTO names VALUES ('a', 'Anna')")
    newest = run.folder.read_json(NEWEST)
    run.execute("UPDATE names SET name = 'lost'")
    run.folder.write_json(NEWEST, newest)
    run.start()
    assert run.execute("SELECT name FROM names").to_pylist() == [{"name": "Anna"}]
    run.execute("INSERT INTO names VALUES ('b', 'Ben')")
    assert names_at(run, 1, "a", "b") == ["Anna", "Ben"]


# -- what is told --------------------------------------------------------------------------------------------------


def test_the_version_is_told(tmp_path: Path) -> None:
    run = started(tmp_path, "INSERT INTO names VALUES ('a', 'Anna')")
    over = "CREATE QUERY over AS SELECT COUNT(*) AS n FROM q [RANGE 1 SECOND SLIDE 1 SECOND]"
    run.execute(f"{over}; CREATE QUERY none AS SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND]")
    assert "    table names: the version that each micro-batch finds when it begins" in lines(run, "q")
    names_at(run, 1, "a")
    run.execute("INSERT INTO names VALUES ('b', 'Ben'), ('c', 'Carl')")
    stats = run.handle.stats()
    assert stats["tables"]["names"]["version"] == 2  # of the rows that have been seen
    names_at(run, 2, "a")
    stats = run.handle.stats()
    assert stats["tables"]["names"] == {
        "version": 3, "rows": 3, "batch": run.batch - 1, "changes": "statements", "problem": "",
    }  # fmt: skip
    assert [stats["queries"][name].get("tables") for name in ("q", "over", "none")] == [{"names": 3}] * 2 + [None]
    told = f"    table names: version 3, 3 rows, as of micro-batch {run.batch - 1}"
    assert told in lines(run, "q") and told in lines(run, "over") and told not in lines(run, "none")

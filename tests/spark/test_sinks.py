"""Sinks on Spark: a batch may come again after a crash at any point, and each sink ends as if it had come once.

"Any point" is meant literally: the tests let `write` die at its first line of the sink's own code, at its second, and
so on to the last (for PostgreSQL some of them, and all in the long run), and have an equal, new object write the batch
again.
"""

from __future__ import annotations

import itertools
import json
import math
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panewise.errors import ConnectorError
from panewise.spark import sinks
from panewise.spark.sinks import SinkKind, SinkTarget, memory, sink_kinds
from tests.line_faults import killed_at
from tests.postgres import PASSWORD, PostgresServer, postgres

__all__ = ["postgres"]

SINKS_FOLDER = str(Path(sinks.__file__).parent)
INSTANT = pa.timestamp("us", tz="UTC")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema([("window_end", INSTANT), ("symbol", pa.string()), ("n", pa.int64())])
_numbers = itertools.count()


def rows(batch_id: int, count: int = 3) -> pa.Table:
    """A report with `count` groups, of which the first is NULL."""
    names = [None, *(f"s{number}" for number in range(1, count))][:count]
    end = NOON + timedelta(seconds=batch_id)
    return pa.table([[end] * count, names, [batch_id * 10 + number for number in range(count)]], schema=SCHEMA)


def target(name: str, keyed: bool = True, schema: pa.Schema = SCHEMA, **options: object) -> SinkTarget:
    return SinkTarget(name, f"{name}_query", tuple(options.items()), schema, "window_end", ("symbol",), keyed)


def kind_of(targets: list[SinkTarget], checkpoint: str = "c1") -> SinkKind:
    """A new object, pickled and back as on its way to a Connect server, that has nothing but the checkpoint's name."""
    ((kind, found),) = sink_kinds(targets, checkpoint, print)
    assert found == targets
    copy: SinkKind = pickle.loads(pickle.dumps(kind))
    return copy


def write_with_a_crash(targets: list[SinkTarget], line_count: int) -> bool:
    """Batches 3 and 4, where 4 dies at the given line, comes again, and is followed by 5."""
    kind = kind_of(targets)
    kind.prepare(targets, 3)
    kind.write(3, [(each, rows(3)) for each in targets], None)
    died = killed_at(line_count, SINKS_FOLDER, lambda: kind.write(4, [(each, rows(4)) for each in targets], None))
    again = kind_of(targets)
    if died and line_count % 3 == 0:
        # The first batch after a restart that failed too.
        again.prepare(targets, 3 if line_count % 2 else 4)
    again.write(4, [(each, rows(4)) for each in targets], None)
    again.write(5, [(each, rows(5)) for each in targets], None)
    return died


def at_every_line(check: Callable[[int], bool], stride: int = 1) -> None:
    """Calls `check(0)`, `check(stride)`, ... until nothing died any more."""
    deaths = next(number for number in itertools.count(step=stride) if not check(number))
    assert deaths > 5, "the crash never fell into the sink's own code"


EXPECTED = [row for batch_id in (3, 4, 5) for row in rows(batch_id).to_pylist()]


@pytest.mark.parametrize("connector", ["parquet", "json"])
def test_a_folder_is_written_once_whatever_dies(tmp_path: Path, connector: str) -> None:
    def check(line_count: int) -> bool:
        paths = [tmp_path / f"{line_count}-{number}" for number in range(2)]
        targets = [target(path.name, connector=connector, path=str(path)) for path in paths]
        died = write_with_a_crash(targets, line_count)
        for path in paths:
            parts = sorted(part for part in path.iterdir() if not part.name.startswith("."))
            assert len(parts) == 3
            assert [row for part in parts for row in read_part(part)] == EXPECTED
        return died

    at_every_line(check)


def read_part(part: Path) -> list[dict[str, Any]]:
    if part.suffix == ".parquet":
        table: list[dict[str, Any]] = pq.ParquetFile(part).read().to_pylist()
        return table
    return read_lines(part)


def read_lines(file: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return [row | {"window_end": datetime.fromisoformat(row["window_end"])} for row in found]


def test_a_single_json_file_is_written_once_whatever_dies(tmp_path: Path) -> None:
    def check(line_count: int) -> bool:
        path = tmp_path / f"{line_count}.json"
        path.write_text('{"of": "an earlier run"}\n')
        died = write_with_a_crash([target("s", connector="json", path=str(path))], line_count)
        first, *_ = path.read_text().splitlines()
        assert first == '{"of": "an earlier run"}'
        path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
        assert read_lines(path) == EXPECTED
        return died

    at_every_line(check)


def test_a_json_file_that_died_within_a_line_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    targets = [target("s", connector="json", path=str(path))]
    kind_of(targets).write(0, [(targets[0], rows(0))], None)
    kind_of(targets).write(1, [(targets[0], rows(1))], None)
    path.write_bytes(path.read_bytes()[:-20])
    kind_of(targets).write(1, [(targets[0], rows(1))], None)
    assert read_lines(path) == rows(0).to_pylist() + rows(1).to_pylist()


@pytest.mark.parametrize("connector", ["parquet", "json"])
def test_what_existed_before(tmp_path: Path, connector: str) -> None:
    def begun(existing: str, checkpoint: str, first_batch: int, path: str) -> None:
        targets = [target("s", connector=connector, path=path, existing=existing)]
        kind = kind_of(targets, checkpoint)
        kind.check(targets)
        kind.prepare(targets, first_batch)
        kind.write(first_batch, [(targets[0], rows(first_batch))], None)

    def held(path: str) -> list[int]:
        place = Path(path)
        files = sorted(place.glob("part-*")) if place.is_dir() else [place]
        return sorted(row["n"] for file in files for row in read_part(file))

    single = [str(tmp_path / "single.json")] if connector == "json" else []
    for path in [str(tmp_path / "folder"), *single]:
        begun("append", "c1", 0, path)
        begun("append", "c2", 0, path)
        assert held(path) == [0, 0, 1, 1, 2, 2], "batch 0 of another checkpoint is another batch"
        with pytest.raises(ConnectorError, match="exists already"):
            begun("fail", "c3", 0, path)
        begun("replace", "c3", 7, path)
        assert held(path) == [70, 71, 72]
        begun("replace", "c3", 7, path)
        assert held(path) == [70, 71, 72], "a first batch that comes again"
        begun("fail", "c4", 0, f"{path}{'.json' if path.endswith('.json') else ''}-new")
        begun("fail", "c4", 0, f"{path}{'.json' if path.endswith('.json') else ''}-new")


def test_two_sinks_share_a_folder_but_not_a_file(tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    shared = [target(name, connector="parquet", path=folder) for name in ("a", "b/c")]
    kind_of(shared).write(0, [(each, rows(0)) for each in shared], None)
    assert pq.read_table(folder).num_rows == 6
    files = [target(name, connector="json", path=f"{folder}.json") for name in ("a", "b")]
    with pytest.raises(ConnectorError, match=r"writes to '.*out\.json', and so does sink 'a'"):
        kind_of(files).check(files)


def test_two_hundred_sinks_and_empty_tables(tmp_path: Path) -> None:
    targets = [target(f"s{number}", connector="parquet", path=str(tmp_path / str(number))) for number in range(200)]
    kind_of(targets).write(0, [(each, rows(0, count=number % 3)) for number, each in enumerate(targets)], None)
    found = [len(list((tmp_path / str(number)).glob("*"))) if number % 3 else 0 for number in range(200)]
    assert found == [min(number % 3, 1) for number in range(200)]


def test_the_console_skips_what_it_has_printed() -> None:
    printed: list[tuple[str, int, int]] = []
    targets = [target("s", connector="console", rows=5)]
    ((kind, _),) = sink_kinds(targets, "c1", lambda title, table, rows: printed.append((title, table.num_rows, rows)))
    kind.check(targets)
    for batch_id in (0, 1, 1, 2):
        kind.write(batch_id, [(targets[0], rows(batch_id, count=0 if batch_id == 2 else 3))], None)
    assert printed == [("s_query, batch 0", 3, 5), ("s_query, batch 1", 3, 5)]


def test_memory_keeps_a_batch_once() -> None:
    targets = [target("kept", connector="memory")]
    kind_of(targets).prepare(targets, 0)
    assert memory.rows("kept").num_rows == 0
    for batch_id in (0, 1, 1):
        kind_of(targets).write(batch_id, [(targets[0], rows(batch_id))], None)
    assert memory.rows("kept").to_pylist() == rows(0).to_pylist() + rows(1).to_pylist()
    kind_of(targets, "c2").prepare(targets, 0)
    assert memory.rows("kept").num_rows == 0
    memory.forget("kept")
    with pytest.raises(ConnectorError, match="there is no memory sink 'kept'"):
        memory.rows("kept")


def test_wrong_options() -> None:
    with pytest.raises(ConnectorError, match="sink 's' needs the option 'connector'"):
        sink_kinds([target("s")], "c1", print)
    with pytest.raises(ConnectorError, match=r"unknown connector 'parket'\nhint: did you mean parquet"):
        sink_kinds([target("s", connector="parket")], "c1", print)
    for options, message in (
        ({"connector": "parquet"}, "needs the option 'path'"),
        ({"connector": "parquet", "path": "s3://bucket/x"}, "not one of the driver's file system"),
        ({"connector": "memory", "path": "x"}, "has no option 'path'"),
        ({"connector": "kafka", "bootstrap": "x:1"}, "needs the option 'topic'"),
        ({"connector": "kafka", "bootstrap": "x:1", "topic": "t", "format": "avro"}, "'avro', expected 'json'"),
        ({"connector": "kafka", "bootstrap": "x:1", "topic": "t", "properties": "a"}, "has no '='"),
        ({"connector": "jdbc", "table": "t", "url": "jdbc:mysql://x/y"}, "only PostgreSQL is written to"),
        ({"connector": "jdbc", "table": "a.b.c", "url": "postgresql://x/y"}, "expected 'table' or 'schema.table'"),
        ({"connector": "jdbc", "table": "t", "url": "postgresql://x/y", "query_column": "n"}, "is a column of its"),
    ):
        wrong = [target("s", **options)]
        with pytest.raises(ConnectorError, match=message):
            kind_of(wrong).check(wrong)


# PostgreSQL


class Tables:
    """Sinks of one test, their tables, and the rows that stand in them."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._prefix = f"test_{next(_numbers)}"

    def target(self, name: str, keyed: bool = True, schema: pa.Schema = SCHEMA, **options: object) -> SinkTarget:
        given = {"url": self.server.url, "password": PASSWORD, "table": f"{self._prefix}_{name}"} | options
        return target(f"{self._prefix}_{name}", keyed, schema, connector="jdbc", **given)

    def rows(self, name: str, order: str = "n") -> list[dict[str, Any]]:
        with self.server.connect() as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            cursor = connection.execute(f'SELECT * FROM "{self._prefix}_{name}" ORDER BY {order}')
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]


@pytest.fixture
def tables(postgres: PostgresServer) -> Tables:
    return Tables(postgres)


def test_postgres_is_written_once_whatever_dies(postgres: PostgresServer, soak: bool) -> None:
    """One sink with a key and one without, which nothing but the batch's number keeps single."""

    def check(line_count: int) -> bool:
        tables = Tables(postgres)
        died = write_with_a_crash([tables.target("keyed"), tables.target("log", keyed=False)], line_count)
        assert tables.rows("keyed") == EXPECTED
        assert tables.rows("log") == EXPECTED
        return died

    # Every line takes most of a minute.
    at_every_line(check, stride=1 if soak else 13)


def test_a_batch_is_in_all_tables_or_in_none(tables: Tables) -> None:
    good, bad = tables.target("good"), tables.target("bad")
    kind = kind_of([good, bad])
    kind.prepare([good, bad], 0)
    kind.write(0, [(good, rows(0)), (bad, rows(0))], None)
    with tables.server.connect() as connection:
        connection.execute(f'ALTER TABLE "{bad.name}" ADD CHECK (n < 12)')
    with pytest.raises(ConnectorError, match=r"PostgreSQL refuses: new row.* violates check constraint"):
        kind.write(1, [(good, rows(1)), (bad, rows(1))], None)
    assert tables.rows("good") == tables.rows("bad") == rows(0).to_pylist()
    with tables.server.connect() as connection:
        connection.execute(f'ALTER TABLE "{bad.name}" DROP CONSTRAINT "{bad.name}_n_check"')
    kind.write(1, [(good, rows(1)), (bad, rows(1))], None)
    assert tables.rows("good") == tables.rows("bad") == rows(0).to_pylist() + rows(1).to_pylist()


def test_another_checkpoint_replaces_the_same_windows(tables: Tables) -> None:
    targets = [tables.target("t")]
    kind_of(targets, "c1").write(0, [(targets[0], rows(1))], None)
    changed = rows(1).set_column(2, "n", pa.array([100, 101, 102]))
    kind_of(targets, "c2").write(0, [(targets[0], changed)], None)
    assert [row["n"] for row in tables.rows("t")] == [100, 101, 102]


def test_every_type_and_its_oddest_values(tables: Tables) -> None:
    columns = {
        "window_end": pa.array([NOON, NOON, NOON], INSTANT),
        "symbol": pa.array([None, "", 'a"b,\\.\n\tü\N{GRINNING FACE}'], pa.string()),
        "truth": pa.array([True, False, None]),
        "small": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
        "large": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
        "single": pa.array([0.1, -math.inf, None], pa.float32()),
        "double": pa.array([math.nan, 5e-324, -0.0], pa.float64()),
        "exact": pa.array([Decimal("-123456789012345.678"), Decimal(0), None], pa.decimal128(18, 3)),
        "day": pa.array([date(1, 1, 1), date(9999, 12, 31), None], pa.date32()),
        "at": pa.array([datetime(1, 1, 1, tzinfo=UTC), NOON + timedelta(microseconds=1), None], INSTANT),
        "coded": pa.array(["x", None, "y\0"]).dictionary_encode(),
    }
    table = pa.table(columns)
    for keyed in (True, False):
        each = tables.target(f"types_{keyed}", keyed, table.schema)
        kind_of([each]).write(0, [(each, table)], None)
        found = tables.rows(f"types_{keyed}", "symbol NULLS FIRST")
        expected = table.to_pylist()
        expected[2]["coded"] = "y\ufffd"
        for row in expected:
            row["single"] = None if row["single"] is None else float(f"{row['single']:.7g}")
        assert math.isnan(found[0].pop("double")) and math.isnan(expected[0].pop("double"))
        assert found == expected
        assert math.copysign(1, found[2]["double"]) == -1


def test_queries_share_a_table_by_a_column_of_their_names(tables: Tables) -> None:
    shared = {"table": tables.target("shared").name, "query_column": "query"}
    targets = [tables.target("a", **shared), tables.target("b", **shared)]
    kind = kind_of(targets)
    kind.check(targets)
    for _ in range(2):
        kind.write(0, [(each, rows(0)) for each in targets], None)
    found = tables.rows("shared", "query, n")
    assert [(row["query"], row["n"]) for row in found] == [(each.query, n) for each in targets for n in range(3)]
    replacing = [tables.target("b", **shared, existing="replace")]
    kind_of(replacing, "c2").prepare(replacing, 0)
    assert {row["query"] for row in tables.rows("shared")} == {targets[0].query}
    alone = [tables.target("a", table=shared["table"]), tables.target("b", table=shared["table"])]
    with pytest.raises(ConnectorError, match="and so does sink"):
        kind_of(alone).check(alone)


def test_what_existed_in_a_table(tables: Tables) -> None:
    for existing, checkpoint, expected in (
        ("append", "c1", [0, 1, 2]),
        ("fail", "c1", [0, 1, 2]),  # the first batch that comes again is no earlier run
        ("fail", "c2", None),
        ("replace", "c3", [0, 1, 2]),
    ):
        targets = [tables.target("t", keyed=False, existing=existing)]
        kind = kind_of(targets, checkpoint)
        if expected is None:
            with pytest.raises(ConnectorError, match="exists already"):
                kind.prepare(targets, 0)
            continue
        kind.prepare(targets, 0)
        kind.write(0, [(targets[0], rows(0))], None)
        assert [row["n"] for row in tables.rows("t")] == expected


def test_a_table_that_is_not_ours(tables: Tables) -> None:
    missing = [tables.target("missing", create=False)]
    with pytest.raises(ConnectorError, match=r"does not exist\nhint: create = true"):
        kind_of(missing).prepare(missing, 0)
    theirs = [tables.target("theirs", create=False)]
    with tables.server.connect() as connection:
        connection.execute(f'CREATE TABLE "{theirs[0].name}" (n bigint, symbol text, window_end timestamptz, more int)')
    with pytest.raises(ConnectorError, match=r"no unique key of window_end, symbol\nhint: .*UNIQUE NULLS NOT DISTINCT"):
        kind_of(theirs).prepare(theirs, 0)
    with tables.server.connect() as connection:
        key = "UNIQUE NULLS NOT DISTINCT (window_end, symbol)"
        connection.execute(f'ALTER TABLE "{theirs[0].name}" ADD {key}')
    for batch_id in (0, 0):
        kind_of(theirs).write(batch_id, [(theirs[0], rows(0))], None)
    assert tables.rows("theirs") == [row | {"more": None} for row in rows(0).to_pylist()]


def test_a_server_that_crashes_between_batches(tables: Tables) -> None:
    targets = [tables.target("t")]
    kind = kind_of(targets)
    kind.write(0, [(targets[0], rows(0))], None)
    tables.server.kill()
    try:
        with pytest.raises(ConnectorError, match="PostgreSQL cannot be reached"):
            kind.write(1, [(targets[0], rows(1))], None)
    finally:
        tables.server.start()
    kind.write(1, [(targets[0], rows(1))], None)
    tables.server.stop()
    tables.server.start()
    kind.write(2, [(targets[0], rows(2))], None)
    assert tables.rows("t") == [row for batch_id in range(3) for row in rows(batch_id).to_pylist()]


def test_no_message_shows_a_password(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "s3cret"
    host = tables.server.url.partition("@")[2]
    each = target("s", connector="jdbc", table="t", url=f"postgresql://panewise:{secret}@{host}")
    assert secret not in repr(each)
    monkeypatch.setenv("PANEWISE_SECRET", secret)
    for options in (
        {"url": f"postgresql://panewise:{secret}@{host}"},
        {"url": f"jdbc:postgresql://{host}", "user": "panewise", "password": secret},
        {"url": f"jdbc:postgresql://{host}?user=panewise&password={secret}"},
        {"url": f"postgresql://panewise@{host}", "password_env": "PANEWISE_SECRET"},
        {"url": f"postgresql://panewise:{secret}@{host}?nonsense={secret}"},
        {"url": f"postgresql://panewise:{secret}@[{host}"},
    ):
        wrong = [target("s", connector="jdbc", table="t", **options)]
        with pytest.raises(ConnectorError) as caught:
            kind_of(wrong).prepare(wrong, 0)
        assert secret not in f"{caught.value!s} {caught.value!r}"
        assert "authentication failed" in str(caught.value) or "libpq" in str(caught.value)
    monkeypatch.setenv("PANEWISE_SECRET", PASSWORD)
    right = [tables.target("right", password_env="PANEWISE_SECRET", password=None)]
    right = [target("r", connector="jdbc", **{k: v for k, v in right[0].options if v is not None and k != "connector"})]
    kind_of(right).prepare(right, 0)
    with pytest.raises(ConnectorError, match="environment variable 'ABSENT', which is not set"):
        kind_of(right).check([target("s", connector="jdbc", table="t", url="postgresql://x/y", password_env="ABSENT")])

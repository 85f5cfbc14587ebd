"""`Engine.run` and `Engine.run_available`: sources in, sinks out, each row once."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import panewise as pw
from panewise.connectors import generator, sinks
from panewise.engine.ingest.stream import Stream
from panewise.engine.run import pump
from panewise.engine.run.driver import RunOptions
from tests.engine.run import engine_run_job
from tests.places import ROOT
from tests.soak import engine_runs
from tests.waiting import until

QUERY = "CREATE QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 1 SECOND];"
pytestmark = pytest.mark.filterwarnings("ignore::panewise.ConnectorWarning")


def csv(*seconds: int) -> str:
    return "ts,v\n" + "".join(f"1970-01-01 00:00:{second:02d},{second}\n" for second in seconds)


def stream(path: Path, connector: str = "csv", more: str = "") -> str:
    return f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (connector = '{connector}', path = '{path}'{more});"


def sink(path: Path, connector: str = "json", more: str = "", name: str = "out") -> str:
    return f"CREATE SINK {name} FROM q WITH (connector = '{connector}', path = '{path}'{more});"


def totals(file: Path) -> list[int]:
    return [json.loads(line)["total"] for line in file.read_text().splitlines()]


def parts(folder: Path) -> list[int]:
    return [row["total"] for part in sorted(folder.glob("part-*.parquet")) for row in pq.read_table(part).to_pylist()]


@pytest.fixture(params=[False, True], ids=["memory", "folder"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[pw.Engine]:
    with pw.Engine(tmp_path / "kept" if request.param else None) as engine:
        yield engine


@pytest.mark.parametrize("connector", ["csv", "json", "parquet"])
def test_files_are_read_and_sinks_are_fed(
    engine: pw.Engine, tmp_path: Path, connector: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"in.{connector}"
    seconds = [0, 1, 2, 3]
    if connector == "csv":
        file.write_text(csv(*seconds))
    elif connector == "json":
        file.write_text("".join(f'{{"ts": "1970-01-01 00:00:0{n}", "v": {n}}}\n' for n in seconds))
    else:
        stamps = pa.array([n * 1_000_000 for n in seconds], pa.timestamp("us"))
        pq.write_table(pa.table({"ts": stamps, "v": seconds}), file)
    engine.execute(stream(file, connector) + QUERY)
    engine.execute(sink(tmp_path / "lines") + sink(tmp_path / "parts", "parquet", name="parts"))
    engine.execute(sink(tmp_path / "one.parquet", "parquet", name="one"))
    engine.execute("CREATE SINK screen FROM q WITH (connector = 'console', rows = 1)")
    engine.execute("CREATE QUERY unsunk AS SELECT MAX(v) AS most FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    summary = engine.run_available()
    assert (summary.rows_read, summary.results_written) == (4, 3)
    assert (summary.streams, summary.queries) == ({"s": 4}, {"q": 3})
    assert repr(summary).startswith("<run: 4 rows read (s 4), 3 results written (q 3), ")
    one = tmp_path / "one.parquet"
    assert totals(tmp_path / "lines") == parts(tmp_path / "parts") == [0, 1, 2]
    assert pq.read_table(one)["total"].to_pylist() == [0, 1, 2]
    assert "the last 1 of 3 rows" in capsys.readouterr().out
    assert engine.results("unsunk")["most"].to_pylist() == [0, 1, 2], "results without a sink stay"
    assert engine.run_available().rows_read == 0
    summary = engine.run_available(flush=True)
    assert (summary.rows_read, summary.results_written) == (0, 1)
    assert totals(tmp_path / "lines") == parts(tmp_path / "parts") == [0, 1, 2, 3]
    assert pq.read_table(one)["total"].to_pylist() == [0, 1, 2, 3]


def test_a_generated_stream_is_read_once(engine: pw.Engine) -> None:
    engine.execute("CREATE STREAM s (ts TIMESTAMP, size BIGINT) WITH (connector = 'generator', rows = 1000)")
    engine.execute("CREATE QUERY n AS SELECT COUNT(*) AS n FROM s [RANGE 1 DAY SLIDE 1 DAY]")
    assert [engine.run_available().rows_read for _ in range(2)] == [1000, 0]
    engine.flush()
    assert engine.results("n")["n"].to_pylist() == [1000]


def test_without_sources_and_sinks_it_says_so() -> None:
    assert repr(pw.Engine().run_available()).startswith("<run: no stream has a connector, there is no sink, ")


@pytest.mark.parametrize("queue", ["", ", queue = 100"])
def test_new_files_are_read_and_changed_ones_refused(engine: pw.Engine, tmp_path: Path, queue: str) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "1.csv").write_text(csv(0, 1))
    engine.execute(stream(source, more=queue) + QUERY + sink(tmp_path / "lines", more=", existing = 'replace'"))
    assert engine.run_available().rows_read == 2
    (source / "2.csv").write_text(csv(2, 3))
    assert engine.run_available().rows_read == 2
    assert engine.run_available().rows_read == 0
    assert totals(tmp_path / "lines") == [0, 1, 2]
    (source / "1.csv").write_text(csv(0, 1, 1))
    with pytest.raises(pw.ConnectorError, match=r"was read from .*1\.csv' before, and it has changed or is gone"):
        engine.run_available()
    (source / "1.csv").write_text(csv(0, 1))
    assert engine.run_available(flush=True).results_written == 1
    # Another stream of the name has other files, and another sink of the name begins anew.
    engine.execute("DROP SINK out; DROP QUERY q; DROP STREAM s")
    (tmp_path / "other.csv").write_text(csv(7, 9))
    engine.execute(stream(tmp_path / "other.csv") + QUERY + sink(tmp_path / "lines", more=", existing = 'replace'"))
    assert engine.run_available().rows_read == 2
    assert [n for n in totals(tmp_path / "lines") if n] == [7]


def test_what_panewise_run_refuses_is_refused(engine: pw.Engine, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(csv(0, 1))
    engine.execute(stream(tmp_path / "in.csv") + QUERY + sink(tmp_path / "in.csv"))
    with pytest.raises(pw.ConnectorError, match="sink 'out' would write into the input of stream 's'"):
        engine.run_available()
    engine.execute("DROP SINK out;" + sink(tmp_path / "out") + sink(tmp_path / "out", name="twin"))
    with pytest.raises(pw.ConnectorError, match="the sinks 'out' and 'twin' write to one place"):
        engine.run_available()
    assert (tmp_path / "in.csv").read_text() == csv(0, 1) and not (tmp_path / "out").exists()
    engine.execute("DROP SINK twin")
    assert engine.run_available().rows_read == 2


def test_a_missing_source_costs_no_sink_what_it_has(engine: pw.Engine, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("earlier")
    engine.execute(stream(tmp_path / "in.csv") + QUERY + sink(tmp_path / "lines", more=", existing = 'replace'"))
    with pytest.raises(pw.ConnectorError, match="of stream 's' does not exist"):
        engine.run_available()
    assert (tmp_path / "lines").read_text() == "earlier"
    (tmp_path / "in.csv").write_text(csv(0, 1))
    engine.run_available()
    assert totals(tmp_path / "lines") == [0]


def test_a_source_that_fails_is_gone_on_with_when_it_is_mended(engine: pw.Engine, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "1.csv").write_text(csv(0, 1, 2))
    (source / "2.csv").write_text("ts,v\n1970-01-01 00:00:03,many\n")
    engine.execute(stream(source) + QUERY + sink(tmp_path / "lines"))
    for _ in range(2):
        with pytest.raises(pw.DataError, match=r"many(.|\n)*the file: .*2\.csv"):
            engine.run_available()
        assert totals(tmp_path / "lines") == [0, 1], "what came before is answered"
    (source / "2.csv").write_text(csv(3, 4))
    assert engine.run_available().rows_read == 2
    assert totals(tmp_path / "lines") == [0, 1, 2, 3]


def test_a_sink_that_fails_gets_what_it_misses_and_the_others_nothing_twice(
    engine: pw.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.csv").write_text(csv(0, 1, 2, 3))
    engine.execute(
        stream(tmp_path / "in.csv") + QUERY + sink(tmp_path / "first") + sink(tmp_path / "x/parts", "parquet", name="p")
    )
    engine.execute("CREATE QUERY r AS SELECT MAX(v) AS total FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    engine.execute(f"CREATE SINK z FROM r WITH (connector = 'json', path = '{tmp_path}/other')")
    write = pq.write_table

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    for _ in range(2):
        with pytest.raises(pw.ConnectorError, match="of sink 'p' cannot be written: No space left on device"):
            engine.run_available()
        assert totals(tmp_path / "other") == [0, 1, 2], "the sinks of other queries are fed"
    monkeypatch.setattr(pq, "write_table", write)
    engine.run_available(flush=True)
    assert totals(tmp_path / "first") == totals(tmp_path / "other") == parts(tmp_path / "x/parts") == [0, 1, 2, 3]


def test_a_line_that_was_half_written_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(csv(0, 1, 2, 3))
    engine = pw.Engine()
    engine.execute(stream(tmp_path / "in.csv") + QUERY + sink(tmp_path / "lines"))
    outcome = sinks.JsonSink.__init__

    class Half:
        """Writes a part, and then no more."""

        def __init__(self, file: Any) -> None:
            self.file, self.left = file, 20

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, data: memoryview) -> int:
            if self.left <= 0:
                raise OSError(28, "No space left on device")
            written: int = self.file.write(data[: self.left])
            self.left -= written
            return written

    def small(self: sinks.JsonSink, definition: Any) -> None:
        outcome(self, definition)
        self._file = Half(self._file)  # type: ignore[assignment]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinks.JsonSink, "__init__", small)
        with pytest.raises(pw.ConnectorError, match="No space left"):
            engine.run_available()
    assert (tmp_path / "lines").read_text() == ""
    engine.run_available()
    assert totals(tmp_path / "lines") == [0, 1, 2]


def test_results_that_somebody_else_has_read_are_told_of(engine: pw.Engine, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "1.csv").write_text(csv(0, 1, 2))
    engine.execute(stream(source) + QUERY + sink(tmp_path / "lines"))
    engine.run_available()
    engine.advance("s", "1970-01-01 00:00:03")
    assert engine.results("q")["total"].to_pylist() == [2]
    (source / "2.csv").write_text(csv(5, 7))
    with pytest.warns(pw.ConnectorWarning, match="the results 2 to 2 of query 'q' were read with results"):
        engine.run_available()
    assert [n for n in totals(tmp_path / "lines") if n] == [1, 5]


@pytest.mark.parametrize("in_one_ledger", [True, False])
def test_results_that_nobody_reads_cost_a_sink_nothing(tmp_path: Path, in_one_ledger: bool) -> None:
    """Sixteen batches give more results than may be held unread, and a second has not passed."""
    found = []
    for most in (4 << 20, None):
        engine = pw.Engine(unread_bytes=most)
        engine.execute(
            "CREATE STREAM s (ts TIMESTAMP, symbol STRING, size BIGINT) WITH (connector = 'generator', rows = 1000000)"
        )
        for number in range(12):
            selected = "" if in_one_ledger or number else "WHERE size > 0"
            engine.execute(
                f"CREATE QUERY q{number} AS SELECT symbol, COUNT(*) AS total "
                f"FROM s [RANGE {number + 1} SECONDS SLIDE 1 SECOND] {selected} GROUP BY symbol"
            )
        engine.execute(f"CREATE SINK out FROM q0 WITH (connector = 'json', path = '{tmp_path}/{most}')")
        engine.run_available()
        found.append((tmp_path / str(most)).read_text())
        dropped = sum(query["results_unread_dropped"] for query in engine.stats()["queries"].values())
        assert bool(dropped) == (most is not None)
    assert found[0] == found[1]


def told(act: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    assert all(warning.filename == __file__ for warning in caught), "the warning names the caller's line"
    return [str(warning.message) for warning in caught if warning.category is pw.ConnectorWarning]


def test_until_it_is_run_the_statements_say_so(tmp_path: Path) -> None:
    with pw.Engine(tmp_path / "kept") as engine:
        statements = stream(tmp_path / "in.csv") + QUERY + sink(tmp_path / "out")
        (warning,) = told(lambda: engine.execute(statements))
        assert warning == (
            "the rows of stream 's' are not read, and sink 'out' gets no results of query 'q' until engine.run() or "
            "engine.run_available() is called"
        )
        assert told(lambda: engine.execute("SHOW SINKS; CREATE STREAM t (ts TIMESTAMP)")) == []
        snapshot = engine.snapshot()
    with pw.Engine(tmp_path / "kept", suspended=True) as engine, pytest.raises(pw.DurabilityError):
        engine.run_available()
    assert told(lambda: pw.Engine(tmp_path / "kept").close()) == []
    assert told(lambda: pw.Engine.restore(snapshot)) == []


def test_progress_is_shown_in_a_terminal_only(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(csv(0, 1, 2))
    for is_terminal in (True, False):
        engine, out = pw.Engine(), io.StringIO()
        engine.execute(stream(tmp_path / "in.csv") + QUERY)
        engine.driver.run(RunOptions(Console(file=out, force_terminal=is_terminal, width=120)))
        assert ("3 rows" in out.getvalue(), bool(out.getvalue())) == (is_terminal, is_terminal)


def test_an_engine_that_is_closed_or_broken_opens_no_sink(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(csv(0, 1, 2))
    engine = pw.Engine(tmp_path / "kept")
    engine.execute(stream(tmp_path / "in.csv") + QUERY + sink(tmp_path / "lines"))
    engine.close()
    with pytest.raises(pw.DurabilityError, match="has been closed"):
        engine.run_available()
    engine = pw.Engine()
    engine.execute(stream(tmp_path / "in.csv") + QUERY + sink(tmp_path / "lines"))
    with pytest.raises(pw.DataError, match=r"stopped by a threading\.Event, not by a int"):
        engine.run(stop=5)  # type: ignore[arg-type]
    engine.turns.broken = True
    with pytest.raises(pw.EngineBroken):
        engine.run_available()
    assert not (tmp_path / "lines").exists()


@contextmanager
def interrupts_as_in_a_terminal() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_batch_and_the_next_run_goes_on(
    engine: pw.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.csv").write_text(csv(2 * number, 2 * number + 1))
    engine.execute(stream(source) + QUERY + sink(tmp_path / "lines"))
    push = Stream.push

    def interrupted(self: Stream, *arguments: Any) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return push(self, *arguments)

    monkeypatch.setattr(Stream, "push", interrupted)
    with interrupts_as_in_a_terminal(), pytest.raises(KeyboardInterrupt):
        engine.run_available()
    assert totals(tmp_path / "lines") == [0], "the first batch is whole, and answered"
    with interrupts_as_in_a_terminal():
        summary = engine.run()
    assert (summary.interrupted, summary.rows_read) == (True, 2)
    monkeypatch.setattr(Stream, "push", push)
    assert engine.run_available(flush=True).rows_read == 2
    assert totals(tmp_path / "lines") == [0, 1, 2, 3, 4, 5]


def test_run_goes_on_until_it_is_stopped(engine: pw.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panewise.engine.run.driver.DRAIN_SECONDS", 0.01)
    source, stop, found = tmp_path / "in", threading.Event(), []
    source.mkdir()
    (source / "1.csv").write_text(csv(0, 1))
    engine.execute(stream(source) + QUERY + sink(tmp_path / "lines"))
    thread = threading.Thread(target=lambda: found.append(engine.run(stop=stop)))
    thread.start()
    try:
        until(lambda: (tmp_path / "lines").exists() and totals(tmp_path / "lines") == [0])
        with pytest.raises(pw.ConnectorError, match="is running already"):
            engine.run_available()
        (source / ".2.csv").write_text(csv(2, 3))
        (source / ".2.csv").rename(source / "2.csv")
        until(lambda: totals(tmp_path / "lines") == [0, 1, 2])
        # What is created meanwhile is read and fed too, and what is pushed.
        assert told(lambda: engine.execute("CREATE STREAM u (ts TIMESTAMP, v BIGINT)")) == []
        engine.execute("CREATE QUERY w AS SELECT COUNT(*) AS total FROM u [RANGE 1 SECOND SLIDE 1 SECOND]")
        engine.execute(f"CREATE SINK more FROM w WITH (connector = 'json', path = '{tmp_path}/more')")
        engine.push("u", [{"ts": 0, "v": 1}, {"ts": 2_000_000, "v": 1}])
        until(lambda: (tmp_path / "more").exists() and totals(tmp_path / "more")[:1] == [1])
    finally:
        stop.set()
        thread.join()
    assert found[0].streams == {"s": 4} and not found[0].interrupted


def test_killed_and_opened_again_the_sinks_have_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "BATCH_ROWS", 500)
    monkeypatch.setattr(pump, "DRAIN_SECONDS", 0.0)
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    for folder in (calm, killed):
        folder.mkdir()
    engine_run_job.run(calm, None)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.engine.run.engine_run_job", str(killed)]
    for writes, code in ((4, -signal.SIGKILL), (9, -signal.SIGKILL), (0, 0)):
        outcome = subprocess.run([*command, str(writes)], cwd=ROOT, env=environment, check=False)
        assert outcome.returncode == code
    assert (killed / "volume.json").read_text() == (calm / "volume.json").read_text()
    expected = pq.read_table(calm / "whole.parquet").to_pylist()
    assert len(expected) > 50
    assert pq.read_table(killed / "whole.parquet").to_pylist() == expected
    assert pq.read_table(killed / "parts").num_rows == len(expected)


def test_the_command_line_and_the_engine_go_on_after_each_other(tmp_path: Path) -> None:
    from tests.serve.cli.test_cli import cql_file, run_embedded

    source = tmp_path / "in"
    source.mkdir()
    (source / "1.csv").write_text(csv(0, 1))
    file = cql_file(tmp_path, stream(source) + QUERY + sink(tmp_path / "lines", more=", existing = 'replace'"))
    assert run_embedded(file, "--path", str(tmp_path / "data"), "--no-flush").exit_code == 0
    (source / "2.csv").write_text(csv(2, 3))
    with pw.Engine(tmp_path / "data" / "engine") as engine:
        assert engine.run_available().rows_read == 2
    (source / "3.csv").write_text(csv(4, 5))
    assert run_embedded(file, "--path", str(tmp_path / "data")).exit_code == 0
    assert totals(tmp_path / "lines") == [0, 1, 2, 3, 4, 5]
    assert not (tmp_path / "data" / "engine" / "sources.json").exists()


def test_the_command_line_goes_on_after_the_engine(tmp_path: Path) -> None:
    from tests.serve.cli.test_cli import cql_file, run_embedded

    source = tmp_path / "in"
    source.mkdir()
    (source / "1.csv").write_text(csv(0, 1, 2))
    text = stream(source) + QUERY + sink(tmp_path / "lines", more=", existing = 'fail'")
    with pw.Engine(tmp_path / "data" / "engine") as engine:
        engine.execute(text)
        assert engine.run_available().rows_read == 3
    assert run_embedded(cql_file(tmp_path, text), "--path", str(tmp_path / "data")).exit_code == 0
    assert totals(tmp_path / "lines") == [0, 1, 2]
    assert not (tmp_path / "data" / "sources.json").exists(), "the notes have one place"


@pytest.mark.parametrize("seed", [3, 22, 30, 41])
def test_runs_that_fail_and_go_on(seed: int) -> None:
    assert engine_runs.play(seed)


def test_a_connector_that_only_spark_has_is_told_so(tmp_path: Path) -> None:
    engine = pw.Engine()
    spark = "CREATE STREAM k (ts TIMESTAMP) WITH (connector = 'kafka', topic = 'x')"
    assert told(lambda: engine.execute(spark)) == ["only Spark has the connector of 'k': this engine cannot run it"]
    (warning,) = told(lambda: engine.execute(stream(tmp_path / "in.csv") + spark.replace(" k ", " l ")))
    assert warning == (
        "the rows of stream 's' are not read until engine.run() or engine.run_available() is called; "
        "only Spark has the connector of 'l': this engine cannot run it"
    )

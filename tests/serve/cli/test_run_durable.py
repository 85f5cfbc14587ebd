"""`panewise run --engine embedded --path DIR`: whatever kills it, the sinks hold what an undisturbed run gives."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from panewise.catalog import SinkDefinition
from panewise.connectors import generator, numbered_sinks, sources
from panewise.connectors.numbered_sinks import NumberedJson, NumberedParquet
from panewise.engine.engine import Engine
from panewise.errors import ConnectorError, DurabilityError
from panewise.serve.cli import run
from panewise.serve.cli.served_run import serve_file, serve_suspended
from panewise.serve.http.results.result_log import ResultLog
from panewise.serve.http.service.settings import Settings
from tests.places import ROOT
from tests.serve.cli import durable_run_job
from tests.serve.cli.test_cli import ANSWERS, CSV, QUERY, STREAM, cql_file, panewise_command, run_embedded
from tests.serve.http.served_process import served
from tests.waiting import until

ROWS = 120_000


class Sinks:
    """What the sinks of the job hold, each in order."""

    def __init__(self, out: Path) -> None:
        self.parts = parquet_rows(out / "parts")
        self.whole = pq.read_table(out / "whole.parquet").to_pylist()
        self.lines = (out / "volume.json").read_text()
        self.changes = (out / "highest.json").read_text()
        self.visits = parquet_rows(out / "visits")


def parquet_rows(folder: Path) -> list[dict[str, Any]]:
    return [row for part in sorted(folder.glob("part-*.parquet")) for row in pq.read_table(part).to_pylist()]


@contextmanager
def job(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.serve.cli.durable_run_job", str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            said(process, "ready")
            yield process
        except BaseException:
            process.kill()
            raise


def said(process: subprocess.Popen[str], word: str) -> str:
    """Reads until a line begins with the word."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return line
    raise AssertionError("the job itself has died")


def life(process: subprocess.Popen[str], after: str | None = None, seconds: float = 0.0) -> bool:
    """Has it run, and kills it so long after a word; whether it came to its end."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    child, finished = 0, False
    for line in process.stdout:
        child = int(line.split()[1]) if line.startswith("opening") else child
        finished |= line == "finished 0\n"
        if line == "ended\n":
            return finished
        if after is not None and line.startswith(after):
            time.sleep(seconds)  # the moment is the thing tested, nothing is waited for
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    raise AssertionError("the job itself has died")


def test_killed_at_random_moments(
    tmp_path: Path, soak: bool, figure: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(20261115)
    rows, wanted = (5 * ROWS, 200) if soak else (ROWS, 5)
    for module in (generator, sources):
        monkeypatch.setattr(module, "BATCH_ROWS", durable_run_job.BATCH_ROWS)  # it makes other rows otherwise
    expected = run_undisturbed(tmp_path / "undisturbed", rows)
    kills = turns = 0
    while kills < wanted:
        turns += 1
        assert turns < 20 * wanted, "the runs end before they are killed"
        folder = tmp_path / str(turns)
        kills += run_killed(folder, rows, wanted - kills, chance)
        found = Sinks(folder / "out")
        assert found.lines == expected.lines
        assert found.changes == expected.changes
        assert found.parts == found.whole == expected.parts
        assert found.visits == expected.visits
    lines = len(expected.lines.splitlines())
    figure("run --path: kill -9 at random moments", f"{kills} in {turns} runs, {rows:,} rows, {lines:,} lines each")


def run_undisturbed(folder: Path, rows: int) -> Sinks:
    durable_run_job.prepare(folder, rows, folder / "out")
    assert run.run_file(folder / "file.cql", flush=True, progress=False) == 0
    return Sinks(folder / "out")


def run_killed(folder: Path, rows: int, most_kills: int, chance: random.Random) -> int:
    """How often it was killed, at most so often, before it came to its end."""
    durable_run_job.prepare(folder, rows, folder / "out")
    kills = 0
    with job(folder) as process:
        while kills < most_kills:
            after, most = chance.choice([("opening", 0.1), ("started", 0.02), ("started", 0.06)])
            if life(process, after, chance.random() * most):
                break  # it was faster
            kills += 1
        else:
            assert life(process), "it does not come to its end"
        assert life(process), "a run after the end changes nothing"
    return kills


class Killed(BaseException):
    """Where the process would have ended."""


@pytest.mark.parametrize("connector", ["parquet", "json"])
def test_ended_at_every_file_operation(tmp_path: Path, connector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows 0 to 29 in writes of 1 to 7 rows; each write is cut short once at each of its operations."""
    whole = pa.table({"n": list(range(30))})
    keep = tmp_path / "keep"
    keep.mkdir()
    definition = SinkDefinition("s", "q", (("connector", connector), ("path", str(tmp_path / "out"))))
    kind = {"parquet": NumberedParquet, "json": NumberedJson}[connector]
    chance, left = random.Random(7), [0]
    for name in ("_sync_to_disk", "_rename_synced"):
        real = getattr(numbered_sinks, name)

        def operation(*arguments: object, real: Callable[..., None] = real) -> None:
            for before in (True, False):
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
                if before:
                    real(*arguments)

        monkeypatch.setattr(numbered_sinks, name, operation)
    first = cuts = 0
    while first < whole.num_rows:
        for at in range(1, 1_000):
            rows = chance.randint(1, 7)  # another number each time: more may have come behind
            left[0] = at
            try:
                kind(definition, keep).write(whole.slice(first, rows), first)
            except Killed:
                cuts += 1
                continue
            first = min(first + rows, whole.num_rows)
            break
    left[0] = 0
    kind(definition, keep).close()
    if connector == "json":
        found = [json.loads(line)["n"] for line in (tmp_path / "out").read_text().splitlines()]
    else:
        found = [row["n"] for row in parquet_rows(tmp_path / "out")]
    assert found == list(range(30))
    assert cuts > 20


@pytest.mark.parametrize("connector", ["parquet", "json"])
def test_rows_that_were_handed_over_long_ago_come_again(tmp_path: Path, connector: str) -> None:
    """As after a loss of power, which takes the last second of the engine's log and nothing of the sink."""
    definition = SinkDefinition("s", "q", (("connector", connector), ("path", str(tmp_path / "out"))))
    kind = {"parquet": NumberedParquet, "json": NumberedJson}[connector]
    sink = kind(definition, tmp_path)
    for first in (0, 2, 4, 6):
        sink.write(pa.table({"n": [first, first + 1]}), first)
    again = kind(definition, tmp_path)
    assert again.next == 8
    again.write(pa.table({"n": [2, 3, 4]}), 2)
    again.write(pa.table({"n": [5]}), 5)
    if connector == "json":
        assert (tmp_path / "out").read_text() == "".join(f'{{"n": {n}}}\n' for n in range(6))
    else:
        assert [row["n"] for row in parquet_rows(tmp_path / "out")] == list(range(6))
    with pytest.raises(ConnectorError, match="expects row 6 of its query, and row 9 was handed over"):
        again.write(pa.table({"n": [9]}), 9)


def durable(folder: Path, *arguments: str) -> Callable[[str], Any]:
    return lambda text: run_embedded(cql_file(folder, text), "--path", str(folder / "kept"), *arguments)


def test_what_was_there_before_stays_or_goes(tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text(CSV)
    (tmp_path / "kept.json").write_text("earlier\n")
    (tmp_path / "replaced.json").write_text("earlier\n")
    lines = "CREATE SINK {0} FROM volume WITH (connector = 'json', path = '{1}/{0}.json'{2});"
    sinks = (
        lines.format("kept", tmp_path, "")
        + lines.format("replaced", tmp_path, ", existing = 'replace'")
        + lines.format("new", tmp_path, ", existing = 'fail'")
    )
    text = STREAM.format(path=tmp_path / "trades.csv") + QUERY + sinks
    for _ in range(2):
        outcome = durable(tmp_path)(text)
        assert outcome.exit_code == 0, outcome.output
        assert len((tmp_path / "new.json").read_text().splitlines()) == len(ANSWERS)
        assert len((tmp_path / "replaced.json").read_text().splitlines()) == len(ANSWERS)
        kept = (tmp_path / "kept.json").read_text().splitlines()
        assert kept[0] == "earlier" and len(kept) == 1 + len(ANSWERS)


def test_new_files_go_on_and_changed_ones_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "1.csv").write_text(CSV)
    sink = f"CREATE SINK lines FROM volume WITH (connector = 'json', path = '{tmp_path}/volume.json');"
    text = STREAM.format(path=source) + QUERY + sink
    start = durable(tmp_path, "--no-flush")
    assert start(text).exit_code == 0
    (source / "2.csv").write_text("ts,symbol,price,size\n2026-01-05 09:31:00,ECHO,70,9\n")
    assert start(text).exit_code == 0
    ends = [json.loads(line)["window_end"][11:19] for line in (tmp_path / "volume.json").read_text().splitlines()]
    assert ends == ["09:30:10", "09:30:20", "09:30:20", "09:30:30", "09:30:30"]
    (source / "0.csv").write_text(CSV)
    outcome = start(text)
    assert outcome.exit_code == 1
    assert "it is no longer the next in name order" in outcome.output
    (source / "0.csv").unlink()
    (source / "1.csv").write_text(CSV + "2026-01-05 09:30:14,ECHO,70,7\n")
    assert "it has changed or is gone" in start(text).output


def test_definitions_go_on_come_anew_or_are_refused(tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text(CSV + "2026-01-05 09:30:14,ECHO,70,many\n")
    stream = STREAM.format(path=tmp_path / "trades.csv")
    rows = "CREATE TABLE owners (owner STRING); INSERT INTO owners VALUES ('ann');"
    start = durable(tmp_path)
    assert "many" in start(stream + QUERY + rows).output
    skipping = stream.replace("WITH (", "WITH (on_bad_row = 'skip', ")
    more = (
        "CREATE TABLE cities (city STRING); INSERT INTO cities VALUES ('york'); SELECT city, owner FROM cities, owners;"
    )
    outcome = start(skipping + QUERY + rows + more)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.count("ann") == outcome.output.count("york") == 1
    assert "1 bad" in outcome.output
    changed = start(skipping + QUERY.replace("20 SECONDS", "30 SECONDS"))
    assert changed.exit_code == 1
    assert "the folder has other definitions of query volume" in changed.output


def test_sinks_need_places_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text(CSV)
    sink = "CREATE SINK {0} FROM volume WITH (connector = 'json', path = '{1}/out.json');"
    text = STREAM.format(path=tmp_path / "trades.csv") + QUERY + sink.format("a", tmp_path) + sink.format("b", tmp_path)
    assert "the sinks 'a' and 'b' write to one place" in durable(tmp_path)(text).output


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("connector", ["json", "parquet"])
def test_a_sink_is_not_the_input_of_its_run(tmp_path: Path, connector: str, kept: bool) -> None:
    source = tmp_path / "in"
    source.mkdir()
    if connector == "json":
        path = source / "trades.csv"
        path.write_text(CSV)
        text = STREAM.format(path=path)
    else:
        path = source
        stamps = pa.array([1_767_605_401_000_000, 1_767_605_412_000_000], pa.timestamp("us"))
        table = {"ts": stamps, "symbol": ["ALFA"] * 2, "price": [10.0, 11.0], "size": [100, 50]}
        pq.write_table(pa.table(table), source / "trades.parquet")
        text = STREAM.format(path=path).replace("'csv'", "'parquet'")
    before = {file.name: file.read_bytes() for file in source.iterdir()}
    text += QUERY + f"CREATE SINK a FROM volume WITH (connector = '{connector}', path = '{{}}');"
    start = durable(tmp_path) if kept else lambda text: run_embedded(cql_file(tmp_path, text))
    outcome = start(text.format(path))
    assert outcome.exit_code == 1
    assert "sink 'a' would write into the input of stream 'trades'" in outcome.output
    assert {file.name: file.read_bytes() for file in source.iterdir()} == before
    # Nothing was made that the right path would disagree with.
    assert start(text.format(tmp_path / "out")).exit_code == 0


SERVED = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT)
  WITH (connector = 'generator', rows = 200000, rate = 1000);
CREATE STREAM pushed (ts TIMESTAMP, v BIGINT);
CREATE QUERY volume AS SELECT symbol, SUM(size) AS shares FROM trades [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY symbol;
CREATE QUERY sums AS SELECT SUM(v) AS s FROM pushed [RANGE 1 SECOND SLIDE 1 SECOND];
CREATE SINK lines FROM volume WITH (connector = 'json', path = '{0}/volume.json');
CREATE SINK totals FROM sums WITH (connector = 'parquet', path = '{0}/sums');
"""


def test_served_killed_and_served_again(tmp_path: Path) -> None:
    """The sinks have every row once, the numbers of results stay, and the sources' end is not the server's."""
    (tmp_path / "file.cql").write_text(SERVED.format(tmp_path))
    command = ("run", str(tmp_path / "file.cql"), "--engine", "embedded", "--path", str(tmp_path / "kept"))
    seconds = [{"ts": second * 1_000_000, "v": second} for second in range(12)]
    with served(tmp_path, *command, "--serve", "127.0.0.1:0") as server:
        server.wait_until_ready()
        assert server.push("pushed", seconds[:6], 1).json() == {"rows": 6, "repeated": False}
        before = server.rows("sums", 5)
        code, _ = server.end(signal.SIGKILL)
        assert code == -signal.SIGKILL
    with served(tmp_path, *command, "--serve", "127.0.0.1:0") as server:
        server.wait_until_ready()
        assert server.push("pushed", seconds[:6], 1).json()["repeated"]
        assert server.push("pushed", seconds[6:], 2).json() == {"rows": 6, "repeated": False}
        assert server.rows("sums", 11)[:5] == before
        lookup = server.get("queries/sums/lookup")
        assert (lookup["rows"][0][-1], lookup["age_seconds"]) == (10, 0.0)
        until(lambda: "the sources have ended, and the server goes on" in server.log.read_text())
        volume = server.get("queries/volume/results", start=0, limit=10_000)
        code, printed = server.end(signal.SIGTERM)
        assert (code, "RUNNING" in printed) == (0, True)
    # Served before and killed, or not served any more: the sinks have what comes next.
    assert panewise_command(*command).exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "volume.json").read_text().splitlines()]
    assert [[*line.values()][2:] for line in lines] == [row[2:] for row in volume["rows"]]
    assert [row["s"] for row in parquet_rows(tmp_path / "sums")] == list(range(12))  # and flushed


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    file = cql_file(tmp_path, "CREATE STREAM s (ts TIMESTAMP);")
    tokens = tmp_path / "tokens"
    tokens.write_text("admin 0123456789\n")
    for arguments, words in (
        (("--engine", "embedded", "--serve", "here"), "'here' is not an address to serve at"),
        (("--engine", "embedded", "--serve", "0.0.0.0:0"), "without tokens everybody"),
        (("--engine", "embedded", "--serve", "127.0.0.1:0", "--token-file", str(tokens)), "line 1 of"),
        (("--serve", "127.0.0.1:0", "--available-now"), "--serve runs until it is interrupted"),
        (("--path", str(tmp_path / "kept")), "on Spark the folder is --checkpoint"),
    ):
        outcome = panewise_command("run", file, *arguments)
        assert (outcome.exit_code, words in outcome.output) == (1, True), outcome.output


def test_a_sink_gets_what_a_server_was_killed_with(tmp_path: Path) -> None:
    """The server's log has taken rows from the engine that the sink has not: the next run brings them."""
    (tmp_path / "trades.csv").write_text(CSV)
    sink = f"CREATE SINK lines FROM volume WITH (connector = 'json', path = '{tmp_path}/volume.json');"
    text = STREAM.format(path=tmp_path / "trades.csv") + QUERY + sink
    assert durable(tmp_path, "--no-flush")(text).exit_code == 0
    with Engine(tmp_path / "kept" / "engine") as engine:
        results = ResultLog(tmp_path / "kept" / "results", keep_rows=1_000, keep_bytes=1 << 20)
        engine.advance("trades", "2026-01-05 09:30:25")
        assert engine.hand_over("volume", lambda table, first: results.append("volume", table, first)) == 2
        results.close()
    assert durable(tmp_path)(text).exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "volume.json").read_text().splitlines()]
    assert sorted((line["window_end"][11:19], line["symbol"], line["shares"]) for line in lines) == ANSWERS


def files_in(folder: Path) -> dict[str, bytes | None]:
    return {str(f.relative_to(folder)): f.read_bytes() if f.is_file() else None for f in folder.rglob("*")}


def made(folder: Path) -> None:
    with Engine(folder) as engine:
        engine.execute("CREATE STREAM pushed (ts TIMESTAMP, v BIGINT)")


@pytest.mark.parametrize("command", ["run", "serve", "suspended"])
@pytest.mark.parametrize(
    ("engine", "path", "hint"),
    [
        ("shop", "shop", "mv '{0}/shop' DIR/engine, and then --path DIR"),
        ("data/engine", "data/engine", "name the folder around it: --path {0}/data"),
    ],
)
def test_the_folder_of_an_engine_is_not_a_data_folder(
    tmp_path: Path, command: str, engine: str, path: str, hint: str
) -> None:
    made(tmp_path / engine)
    before = files_in(tmp_path / "shop"), files_in(tmp_path / "data")
    commands = {
        "run": lambda folder: run.opened(None, folder, Console()),
        "serve": lambda folder: serve_file(None, Settings(path=folder), flush=False),
        "suspended": lambda folder: serve_suspended(None, Settings(path=folder)),
    }
    with pytest.raises(DurabilityError, match="is the folder of an engine") as refused:
        commands[command](tmp_path / path)
    assert refused.value.hint is not None and hint.format(tmp_path) in refused.value.hint
    assert (files_in(tmp_path / "shop"), files_in(tmp_path / "data")) == before


def test_a_data_folder_is_not_the_folder_of_an_engine(tmp_path: Path) -> None:
    run.opened(None, tmp_path / "data", Console()).close()
    made(tmp_path / "data" / "engine")
    before = files_in(tmp_path)
    for suspended in (False, True):
        with pytest.raises(
            DurabilityError, match=r"there is no engine in '.*data', but there is one in '.*data/engine'"
        ) as refused:
            Engine(tmp_path / "data", suspended=suspended)
        assert refused.value.hint is not None
        assert f"panewise serve --path {tmp_path / 'data'}" in refused.value.hint
    assert files_in(tmp_path) == before
    # The paths that the hints name are those that are meant.
    with run.opened(None, tmp_path / "data", Console()) as engine:
        assert "pushed" in engine.stats()["streams"]


def test_an_engine_that_was_served_as_a_data_folder_before_is_found_out(tmp_path: Path) -> None:
    made(tmp_path)
    made(tmp_path / "engine")
    with pytest.raises(DurabilityError, match="is the folder of an engine") as refused:
        run.opened(None, tmp_path, Console())
    assert refused.value.hint is not None and "is another one" in refused.value.hint
    Engine(tmp_path).close()

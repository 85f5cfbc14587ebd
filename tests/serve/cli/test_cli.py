"""The command line, from its arguments to what it prints and writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import panewise
from panewise.serve.cli.cli import app

STREAM = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT) WITH (connector = 'csv', path = '{path}');
"""
QUERY = """
CREATE QUERY volume AS SELECT symbol, SUM(size) AS shares
  FROM trades [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY symbol;
"""
CSV = """ts,symbol,price,size
2026-01-05 09:30:01,ALFA,10,100
2026-01-05 09:30:12,ALFA,11,50
2026-01-05 09:30:13,ECHO,70,7
"""
ANSWERS = [
    ("09:30:10", "ALFA", 100),
    ("09:30:20", "ALFA", 150),
    ("09:30:20", "ECHO", 7),
    ("09:30:30", "ALFA", 50),
    ("09:30:30", "ECHO", 7),
]


def panewise_command(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments), input=stdin, catch_exceptions=False)


def run_embedded(file: str, *arguments: str) -> Result:
    return panewise_command("run", file, "--engine", "embedded", *arguments)


@pytest.fixture
def trades(tmp_path: Path) -> Path:
    (tmp_path / "trades.csv").write_text(CSV)
    return tmp_path / "trades.csv"


def cql_file(folder: Path, text: str) -> str:
    (folder / "file.cql").write_text(text)
    return str(folder / "file.cql")


def test_help_and_version_import_nothing_heavy() -> None:
    heavy = {"pyspark", "numba", "pyarrow", "pandas", "sqlglot", "prompt_toolkit", "numpy"}
    script = (
        "import sys; from panewise.serve.cli.cli import app\n"
        "try: app([sys.argv[1]])\n"
        f"except SystemExit: print(sorted({heavy} & set(sys.modules)))"
    )
    for argument, expected in (("--help", "explain"), ("--version", f"panewise {panewise.__version__}")):
        outcome = subprocess.run([sys.executable, "-c", script, argument], capture_output=True, text=True, check=True)
        assert expected in outcome.stdout
        assert outcome.stdout.endswith("[]\n")


@pytest.mark.parametrize("command", ["run", "serve"])
def test_help_shows_what_stands_in_brackets(command: str) -> None:
    assert "read|write TOKEN [name]" in " ".join(panewise_command(command, "--help").stdout.split())


def test_run_writes_sinks_and_a_summary(tmp_path: Path, trades: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panewise.engine.run.pump.DRAIN_SECONDS", 1e9)  # all results at once, however slow the machine
    out = tmp_path / "out"
    sinks = f"""
        CREATE SINK files FROM volume WITH (connector = 'parquet', path = '{out}/parts');
        CREATE SINK lines FROM volume WITH (connector = 'json', path = '{out}/volume.json');
        CREATE SINK screen FROM volume WITH (connector = 'console', rows = 2);
    """
    outcome = run_embedded(cql_file(tmp_path, STREAM.format(path=trades) + QUERY + sinks))
    assert outcome.exit_code == 0, outcome.output
    rows = pq.read_table(out / "parts").to_pylist()
    assert sorted((str(row["window_end"].time()), row["symbol"], row["shares"]) for row in rows) == ANSWERS
    lines = [json.loads(line) for line in (out / "volume.json").read_text().splitlines()]
    assert sorted((line["window_end"][11:19], line["symbol"], line["shares"]) for line in lines) == ANSWERS
    assert "the last 2 of 5 rows" in outcome.output
    assert "3 rows in" in outcome.output


def test_run_without_flush_keeps_open_windows_open(tmp_path: Path, trades: Path) -> None:
    sink = f"CREATE SINK lines FROM volume WITH (connector = 'json', path = '{tmp_path}/volume.json');"
    file = cql_file(tmp_path, STREAM.format(path=trades) + QUERY + sink)
    assert run_embedded(file, "--no-flush").exit_code == 0
    assert len((tmp_path / "volume.json").read_text().splitlines()) == 1


def test_run_shows_what_statements_return(tmp_path: Path, trades: Path) -> None:
    outcome = run_embedded(cql_file(tmp_path, STREAM.format(path=trades) + QUERY + "SHOW QUERIES;"))
    assert outcome.exit_code == 0
    assert "RUNNING" in outcome.output


def test_mistakes_end_with_their_message(tmp_path: Path) -> None:
    wrong = STREAM.format(path="absent.csv") + "\nCREATE QUERY q AS SELECT prize FROM trades [NOW];"
    outcome = run_embedded(cql_file(tmp_path, wrong))
    assert outcome.exit_code == 1
    assert "'prize'" in outcome.output
    assert "line 4" in outcome.output
    assert "^^^^^" in outcome.output
    assert "did you mean price or size?" in outcome.output
    missing = run_embedded(cql_file(tmp_path, STREAM.format(path="absent.csv")))
    assert missing.exit_code == 1
    assert "'absent.csv' of stream 'trades' does not exist" in missing.output
    assert run_embedded(str(tmp_path / "absent.cql")).exit_code == 1
    assert "there are spark and embedded" in panewise_command("run", "x.cql", "--engine", "steam").output


def test_a_bad_row_fails_the_run_or_is_set_aside(tmp_path: Path, trades: Path) -> None:
    trades.write_text(CSV + "2026-01-05 09:30:14,ECHO,70,many\n")
    stream = STREAM.format(path=trades)
    outcome = run_embedded(cql_file(tmp_path, stream + QUERY))
    assert outcome.exit_code == 1
    assert "many" in outcome.output
    skipping = stream.replace("WITH (", "WITH (on_bad_row = 'skip', ")
    sink = f"CREATE SINK lines FROM volume WITH (connector = 'json', path = '{tmp_path}/volume.json');"
    assert run_embedded(cql_file(tmp_path, skipping + QUERY + sink)).exit_code == 0
    assert len((tmp_path / "volume.json").read_text().splitlines()) == len(ANSWERS)


def test_a_table_with_a_connector_is_joined(tmp_path: Path, trades: Path) -> None:
    (tmp_path / "names.csv").write_text("symbol,name\nALFA,Alfa plc\n")
    table = f"""CREATE TABLE names (symbol STRING, name STRING) NON RETROACTIVE
                  WITH (connector = 'csv', path = '{tmp_path}/names.csv');"""
    query = """CREATE QUERY named AS SELECT t.symbol, n.name, t.size
                 FROM trades [RANGE 20 SECONDS] AS t, names AS n WHERE t.symbol = n.symbol;"""
    sink = f"CREATE SINK lines FROM named WITH (connector = 'json', path = '{tmp_path}/named.json');"
    outcome = run_embedded(cql_file(tmp_path, STREAM.format(path=trades) + table + query + sink))
    assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "named.json").read_text().count("Alfa plc") >= 2


def test_explain_as_text_and_json(tmp_path: Path) -> None:
    file = cql_file(tmp_path, STREAM.format(path="not read") + QUERY)
    text = panewise_command("explain", file, "--query", "volume")
    assert text.exit_code == 0, text.output
    assert "RANGE 20 SECONDS SLIDE 10 SECONDS" in text.output
    assert isinstance(json.loads(panewise_command("explain", file, "--json").output), dict)
    wrong = panewise_command("explain", file, "--query", "volumes")
    assert wrong.exit_code == 1
    assert "volume" in wrong.output


def test_the_demonstration_ends_by_itself() -> None:
    outcome = panewise_command("demo", "--seconds", "0.5", "--engine", "embedded")
    assert outcome.exit_code == 0
    assert re.match(r"In your browser: http://127\.0\.0\.1:\d+ ", outcome.output)
    assert "CREATE QUERY momentum AS SELECT" in outcome.output
    assert "rows through 12 queries" in outcome.output
    assert "times instead of 12" in outcome.output


@pytest.mark.parametrize("connector", ["json", "parquet"])
def test_a_file_that_is_run_twice_adds_to_its_sinks_unless_they_are_told_otherwise(
    tmp_path: Path, trades: Path, connector: str
) -> None:
    sink = "CREATE SINK {0} FROM volume WITH (connector = '{1}', path = '{2}/{0}.{1}'{3});"
    options = {"kept": "", "replaced": ", existing = 'replace'"}
    sinks = [sink.format(name, connector, tmp_path, text) for name, text in options.items()]
    file = cql_file(tmp_path, STREAM.format(path=trades) + QUERY + "".join(sinks))

    def rows(path: Path) -> int:
        return pq.read_table(path).num_rows if connector == "parquet" else len(path.read_text().splitlines())

    for run in (1, 2):
        assert run_embedded(file).exit_code == 0
        assert rows(tmp_path / f"kept.{connector}") == run * len(ANSWERS)
        assert rows(tmp_path / f"replaced.{connector}") == len(ANSWERS)
    refusing = STREAM.format(path=trades) + QUERY + sink.format("kept", connector, tmp_path, ", existing = 'fail'")
    outcome = run_embedded(cql_file(tmp_path, refusing))
    assert outcome.exit_code == 1 and "exists already" in outcome.output


REFUSED = {
    "--checkpoint=kept": "use --path for the folder from which the next run continues",
    "--master=local[2]": "it runs in this process",
    "--trigger=5 seconds": "it has no micro-batches",
    "--replace": "by statements",
    "--token-file=tokens": "add --serve",
}


@pytest.mark.parametrize("option", REFUSED)
def test_options_that_would_do_nothing_are_refused(tmp_path: Path, trades: Path, option: str) -> None:
    sink = f"CREATE SINK lines FROM volume WITH (connector = 'json', path = '{tmp_path}/volume.json');"
    outcome = run_embedded(cql_file(tmp_path, STREAM.format(path=trades) + QUERY + sink), option)
    assert outcome.exit_code == 1
    assert REFUSED[option] in " ".join(outcome.output.split())
    assert not (tmp_path / "volume.json").exists()

"""The shell through a pipe, in a process of its own and in this one, and its history file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from panewise.serve.cli.shell import history_file
from tests.places import ROOT
from tests.serve.cli.test_cli import panewise_command

STATEMENTS = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, size BIGINT);
CREATE QUERY volume AS
  SELECT symbol, SUM(size) AS shares
  FROM trades [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY symbol;
"""


def shell(stdin: str, *arguments: str) -> Result:
    return panewise_command("shell", *arguments, stdin=stdin)


def test_a_session_through_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text("ts,symbol,size\n2026-01-05 09:30:01,ALFA,5\n2026-01-05 09:30:12,ALFA,6\n")
    pushed = f"\\push trades {tmp_path / 'trades.csv'}\n"
    typed = STATEMENTS + pushed + "\\flush\n\\lookup volume\n\\stats\nSHOW QUERIES;\n\\quit\nX;\n"
    command = [sys.executable, "-m", "panewise.serve.cli.cli", "shell"]
    outcome = subprocess.run(command, input=typed, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert "2 rows into trades" in outcome.stdout
    assert "2026-01-05 09:30:10" in outcome.stdout
    assert "2026-01-05 09:30:30" in outcome.stdout
    assert "11" in outcome.stdout
    assert "RUNNING" in outcome.stdout


def test_statements_of_a_file_come_first_and_mistakes_are_underlined(tmp_path: Path) -> None:
    (tmp_path / "start.cql").write_text(STATEMENTS)
    stdin = "SELECT sise\nFROM trades [NOW];\nSHOW STREAMS;\n\\psh\n\\push trades\n"
    outcome = shell(stdin, str(tmp_path / "start.cql"))
    assert outcome.exit_code == 1
    assert "^^^^" in outcome.stderr
    assert "did you mean size?" in outcome.stderr
    assert "there is no command \\psh" in outcome.stderr
    assert "expected \\push STREAM FILE" in outcome.stderr
    assert "trades" in outcome.stdout, "a mistake does not end the shell"


def test_help_lists_the_commands() -> None:
    outcome = shell("\\help")
    for command in ("\\push STREAM FILE", "\\results [QUERY]", "\\quit"):
        assert command in outcome.stdout


def test_a_generated_stream_is_read() -> None:
    outcome = shell(
        "CREATE STREAM trades (ts TIMESTAMP, size BIGINT) WITH (connector = 'generator', rows = 5000);\n"
        "CREATE QUERY n AS SELECT COUNT(*) AS trades FROM trades [RANGE 1 DAY SLIDE 1 DAY];\n"
        "\\read\n\\flush\n"
    )
    assert outcome.exit_code == 0, outcome.stderr
    assert "5,000 rows into trades" in outcome.stdout
    assert "5000" in outcome.stdout.split("into trades")[1]


def test_a_stream_with_a_connector_says_which_command_reads_it() -> None:
    outcome = shell(
        "CREATE STREAM read (ts TIMESTAMP, size BIGINT) WITH (connector = 'generator', rows = 5);\n"
        "CREATE STREAM pushed (ts TIMESTAMP, size BIGINT);\n"
    )
    assert outcome.stdout == "ok; \\read reads its rows\nok\n"


def test_read_feeds_sinks_and_reads_each_row_once(tmp_path: Path) -> None:
    outcome = shell(
        "CREATE STREAM trades (ts TIMESTAMP, size BIGINT) WITH (connector = 'generator', rows = 5000);\n"
        "CREATE QUERY n AS SELECT COUNT(*) AS trades FROM trades [RANGE 1 DAY SLIDE 1 DAY];\n"
        f"CREATE SINK out FROM n WITH (connector = 'json', path = '{tmp_path}/n.json');\n"
        "\\read\n\\flush\n\\read\n"
    )
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.stderr == ""
    assert "5,000 rows into trades" in outcome.stdout
    assert "0 rows into trades\n1 results of n into its sinks" in outcome.stdout
    assert '"trades": 5000' in (tmp_path / "n.json").read_text()


def test_the_history_is_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file() == tmp_path / "panewise" / "history"
    assert history_file().parent.is_dir()


def test_rows_that_come_late_are_remarked_on(tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text("ts,symbol,size\n2026-01-05 09:30:12,ALFA,5\n2026-01-05 09:30:01,ALFA,6\n")
    outcome = shell(STATEMENTS + f"\\push trades {tmp_path / 'trades.csv'}\n")
    assert outcome.exit_code == 0
    said = " ".join(outcome.stderr.split())
    assert "1 of 2 rows of stream 'trades' came late and were dropped" in said
    assert "WATERMARK FOR ts AS ts - INTERVAL 11 SECONDS" in said
    assert "LateRowsWarning" not in said


@pytest.mark.parametrize("word", ["exit", "QUIT;", " quit ", "\\exit", "\\q"])
def test_words_that_people_type_to_get_out(word: str) -> None:
    outcome = shell(f"{word}\nSHOW NONSENSE;\n")
    assert (outcome.exit_code, outcome.stderr) == (0, "")


def test_help_is_not_the_beginning_of_a_statement() -> None:
    assert "\\push STREAM FILE" in shell("help\n").stdout


def test_bad_rows_are_remarked_on_and_shown(tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text("ts,symbol,size\n2026-01-05 09:30:01,ALFA,5\n2026-01-05 09:30:01,ALFA,many\n")
    skipping = "ALTER STREAM trades SET (on_bad_row = 'skip');\n"
    outcome = shell(STATEMENTS + skipping + f"\\push trades {tmp_path / 'trades.csv'}\n\\bad trades\n")
    assert outcome.exit_code == 0
    said = " ".join(outcome.stderr.split())
    assert (
        "1 of 2 rows of stream 'trades' were bad and set aside; of the last one size = 'many' is not a BIGINT" in said
    )
    assert "size = 'many' is not a BIGINT" in outcome.stdout


def test_the_readme_lists_every_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\\\w+)", readme))
    commands = re.findall(r"^ *(\\\w+)", shell("\\help\n").stdout, re.MULTILINE)
    assert len(commands) == 9 and set(commands) == listed

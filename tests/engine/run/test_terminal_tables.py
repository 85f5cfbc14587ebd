"""Tables, values and errors in the terminal."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pyarrow as pa
from rich.console import Console, RenderableType

from panewise.engine.run.terminal_tables import error_text, result_table
from panewise.errors import BindError, Span


def printed(renderable: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_values_have_a_plain_form() -> None:
    table = pa.table(
        {
            "at": pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
            "mean": [0.1 + 0.2],
            "none": pa.nulls(1, pa.int64()),
            "yes": [True],
            "markup": ["[bold]x[/]"],
        }
    )
    text = printed(result_table(table))
    for expected in ("2026-01-01 12:00:00", " 0.3 ", "NULL", "true", "[bold]x[/]"):
        assert expected in text


def test_long_tables_show_the_youngest_rows() -> None:
    text = printed(result_table(pa.table({"n": list(range(100, 200))}), rows_max=3))
    assert "199" in text
    assert "196" not in text
    assert "the last 3 of 100 rows" in text
    assert "no rows" in printed(result_table(pa.table({"n": pa.array([], pa.int64())})))


def test_an_error_keeps_its_underlining() -> None:
    error = BindError("there is no column 'prize'", text="SELECT prize", span=Span(7, 12), hint="did you mean price?")
    lines = printed(error_text(error)).splitlines()
    assert [line.rstrip() for line in lines] == [
        "error: there is no column 'prize' (line 1, column 8)",
        " 1 | SELECT prize",
        "   |        ^^^^^",
        "hint: did you mean price?",
    ]

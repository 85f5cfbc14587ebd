"""Arrow tables, errors and numbers as a terminal shows them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from panewise.connectors.sinks import PrintTable
from panewise.errors import PanewiseError

if TYPE_CHECKING:
    import pyarrow as pa


def output_console() -> Console:
    return Console(highlight=False, soft_wrap=False)


def error_console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def error_text(error: PanewiseError) -> Text:
    """The message in red, and below it the underlined place and the hint, unchanged."""
    first, _, rest = f"error: {error}".partition("\n")
    text = Text(first, style="bold red")
    if rest:
        text.append(Text("\n" + rest, style="not bold default"))
    return text


def result_table(table: pa.Table, *, title: str | None = None, rows_max: int = 40) -> Group:
    """The last rows of a table, and below it how many rows it has, if some are left out."""
    import pyarrow as pa

    shown = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for field in table.schema:
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        shown.add_column(field.name, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in table.slice(max(0, table.num_rows - rows_max)).to_pylist():
        shown.add_row(*(value_text(row[name]) for name in table.column_names))
    if table.num_rows > rows_max:
        return Group(shown, Text(f"the last {rows_max:,} of {table.num_rows:,} rows", style="dim"))
    return Group(shown) if table.num_rows else Group(shown, Text("no rows", style="dim"))


def value_text(value: object) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, datetime):
        return Text(value.replace(tzinfo=None).isoformat(sep=" "))
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, float):
        return Text(f"{value:.10g}")
    return Text(str(value))


def short_number(value: float) -> str:
    """
    >>> short_number(950), short_number(12_345), short_number(999_960), short_number(3_400_000)
    ('950', '12.3 k', '1.00 M', '3.40 M')
    """
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")):
        shown = value / factor
        digits = 0 if factor == 1 else max(0, 3 - len(f"{abs(shown):.0f}"))
        if abs(round(shown, digits)) >= 1:
            return f"{shown:.{digits}f} {unit}".rstrip()
    return f"{value:.0f}"


def rate(rows: int, seconds: float) -> str:
    return f"{short_number(rows / seconds)} rows/s" if seconds > 0 else "0 rows/s"


def printer(console: Console) -> PrintTable:
    """The function by which console sinks print."""

    def print_table(title: str, table: pa.Table, rows_max: int) -> None:
        console.print(result_table(table, title=title, rows_max=rows_max))

    return print_table

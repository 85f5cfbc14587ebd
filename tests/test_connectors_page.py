"""The page on connectors lists every option with its default, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from panewise.connectors.generator import GeneratorSource
from panewise.connectors.options import CONNECTOR, REQUIRED, STREAM_OPTIONS, ConnectorOption
from panewise.connectors.sinks import ConsoleSink, JsonSink, ParquetSink
from panewise.connectors.sources import CsvSource, JsonSource
from panewise.connectors.sources import ParquetSource as ParquetFiles
from panewise.language.bind.binder import parse
from panewise.spark.ingest import stream_sources as sources
from panewise.spark.ingest.row_decoders import SPARK_FILE_OPTIONS
from panewise.spark.kafka.kafka_source import KAFKA_OPTIONS
from panewise.spark.sinks import delta, jdbc_options

PAGE = (Path(__file__).parents[1] / "docs" / "connectors.md").read_text(encoding="utf-8")
OF_STREAMS = {option.name for option in STREAM_OPTIONS}


def own(options: tuple[ConnectorOption, ...]) -> list[ConnectorOption]:
    return [option for option in options if option.name not in OF_STREAMS]


SECTIONS = {
    "Every stream": list(STREAM_OPTIONS),
    "parquet": own(ParquetFiles.options),
    "csv": own(CsvSource.options),
    "json": own(JsonSource.options),
    "generator": own(GeneratorSource.options),
    "kafka (Spark)": own(KAFKA_OPTIONS),
    **{f"{name} (Spark)": own(options) for name, options in sources._OPTIONS.items()},
    "sink parquet": own(ParquetSink.options),
    "sink json": own(JsonSink.options),
    "sink console": own(ConsoleSink.options),
    "sink delta (Spark)": own(delta._OPTIONS),
    "sink jdbc (Spark)": own(jdbc_options._OPTIONS),
}
# Values that the page writes as people do.
SHOWN = {
    "ahead": "1 day",
    "start": "`'2026-01-01 09:30:00'`",
    "disorder": "0 seconds",
}


def rows_of(section: str) -> list[tuple[str, str]]:
    """Names and defaults of the table below a heading."""
    _, _, rest = PAGE.partition(f"# {section}\n")
    table = rest.partition("\n#")[0]
    return re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", table, re.MULTILINE)


def shown(option: ConnectorOption) -> str:
    if option.name in SHOWN:
        return SHOWN[option.name]
    if option.default is REQUIRED:
        return "required"
    if option.default is None:
        return "none"
    if isinstance(option.default, bool):
        return str(option.default).upper()
    return f"`'{option.default}'`" if isinstance(option.default, str) else str(option.default)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_table_lists_every_option_with_its_default(section: str) -> None:
    assert rows_of(section) == [(option.name, shown(option)) for option in SECTIONS[section]]


def test_options_that_spark_adds() -> None:
    assert [name for name, _ in rows_of("On Spark")] == list(SPARK_FILE_OPTIONS)
    assert CONNECTOR.name == rows_of("Every stream")[0][0]


def test_the_example_is_a_statement() -> None:
    for text in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL):
        parse(text)

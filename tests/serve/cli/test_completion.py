"""Completion in the shell."""

from __future__ import annotations

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from panewise.catalog import Catalog, SinkDefinition, StreamDefinition
from panewise.schema import DOUBLE, TIMESTAMP, Column, Schema
from panewise.serve.cli.completion import CqlCompleter


def completions(text: str) -> list[str]:
    catalog = Catalog()
    catalog.add(StreamDefinition("trades", Schema((Column("ts", TIMESTAMP), Column("Price", DOUBLE))), "ts", 0))
    catalog.add(SinkDefinition("alerts", "trades"))
    completer = CqlCompleter(lambda: catalog, ["\\push", "\\quit"])
    found = completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
    return [completion.text for completion in found]


def test_keywords_names_columns_and_commands() -> None:
    assert completions("sel") == ["SELECT"]
    assert completions("SELECT a FROM tra") == ["trades"]
    assert completions("SELECT pri") == ["Price", "PRIMARY"]
    assert completions("DROP SINK ale") == ["alerts"]
    assert completions("\\p") == ["\\push"]
    assert completions("\\push tra") == ["trades"]
    assert completions("SELECT ") == []

"""Completion in the shell: keywords of CQL, names of the catalog, and the shell's own commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from panewise.catalog import Catalog, SinkDefinition

KEYWORDS = """
    ALIGN ALTER AND ARCHIVE ARCHIVES ARG_MAX ARG_MIN AS AVG BETWEEN BIGINT BOOLEAN BOOL_AND BOOL_OR BY CASE CAST
    COALESCE COUNT CREATE DATE DAYS DECIMAL DELETE DISTINCT DOUBLE DROP DSTREAM ELSE END EXCEPT EXISTS EXPLAIN FALSE
    FIRST FLOAT FROM GEOMEAN GROUP HAVING HOURS IN INSERT INT INTERNAL INTERVAL INTO IS ISTREAM JOIN KEY LAST LIKE
    MAX MICROSECONDS MILLISECONDS MIN MINUTES NON NOT NOW NULL OFFSET ON OR PARTITION PLAN PRIMARY QUERIES QUERY
    RANGE RESTORE RESUME RETROACTIVE ROWS RSTREAM SECONDS SELECT SET SHOW SINK SINKS SLIDE STDDEV_POP STDDEV_SAMP
    STREAM STREAMS STRING SUM SUSPEND TABLE TABLES THEN TIMESTAMP TRUE UNBOUNDED UPDATE VALUES VAR_POP VAR_SAMP
    WATERMARK WEEKS WHEN WHERE WITH WSTREAM
""".split()


class CqlCompleter(Completer):
    """Completes the word at the cursor; names are completed as they were declared."""

    def __init__(self, catalog: Callable[[], Catalog], commands: Iterable[str]) -> None:
        self._catalog = catalog
        self._commands = sorted(commands)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        line = document.text_before_cursor
        if line.startswith("\\") and " " not in line:
            yield from _matching(line, self._commands, "command")
            return
        word = document.get_word_before_cursor()
        if not word.strip():
            return
        for kind, names in self._names().items():
            yield from _matching(word, names, kind)
        if not line.startswith("\\"):
            yield from _matching(word, KEYWORDS, "")

    def _names(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        columns: dict[str, None] = {}
        for definition in self._catalog():
            names.setdefault(definition.kind, []).append(definition.name)
            if not isinstance(definition, SinkDefinition):
                columns.update(dict.fromkeys(definition.schema.names))
        names["column"] = list(columns)
        return names


def _matching(word: str, names: Iterable[str], kind: str) -> Iterator[Completion]:
    start = word.lower()
    for name in names:
        if name.lower().startswith(start) and name != word:
            yield Completion(name, start_position=-len(word), display_meta=kind)

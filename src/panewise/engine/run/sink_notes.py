"""How far the sinks of an engine have come, so that the next run continues with what each of them wrote itself.

If the engine has a folder, sinks note it there (`connectors/numbered_sinks.py`). Otherwise it is kept here as long as
the engine lives: the option `existing` counts when a sink is first opened, and later runs append. A sink that was
dropped and created again begins anew in both cases.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from panewise.catalog import Catalog, SinkDefinition
from panewise.connectors.by_name import open_numbered_sink, open_sink
from panewise.connectors.numbered_sinks import CountedSink, NumberedSink, file_name
from panewise.connectors.sinks import PrintTable


class SinkNotes:
    """The progress of the sinks of one engine. `keep`: the folder of their notes, if the engine has one."""

    def __init__(self, keep: Path | None) -> None:
        self._keep = keep
        self._counted: dict[str, tuple[SinkDefinition, CountedSink]] = {}  # by lower-case name; only without a folder

    def open(self, sink: SinkDefinition, print_table: PrintTable) -> NumberedSink:
        """Opens a sink that continues where it ended; ConnectorError if it cannot."""
        if self._keep is not None:
            return open_numbered_sink(sink, print_table, self._keep)
        definition, before = self._counted.get(sink.name.lower(), (None, None))
        if definition is not sink or before is None:
            counted = CountedSink(open_sink(sink, print_table))
        else:
            counted = CountedSink(open_sink(_appending(sink), print_table), before.next)
        self._counted[sink.name.lower()] = sink, counted
        return counted

    def clear(self, catalog: Catalog) -> None:
        """Removes the notes of sinks that are not in the catalog, and makes the folder if it is missing."""
        if self._keep is None:
            return
        self._keep.mkdir(0o700, parents=True, exist_ok=True)
        known = {file_name(sink) for sink in catalog if isinstance(sink, SinkDefinition)}
        for note in self._keep.glob("*.json"):
            if note.stem not in known and not note.name.startswith("."):
                self._remove(note.stem)

    def forget(self, sink: SinkDefinition) -> None:
        """Removes the notes of a sink that was dropped: another sink of its name begins anew."""
        self._remove(file_name(sink))

    def _remove(self, name: str) -> None:
        if self._keep is not None:
            (self._keep / f"{name}.json").unlink(missing_ok=True)
            shutil.rmtree(self._keep / name, ignore_errors=True)


def _appending(sink: SinkDefinition) -> SinkDefinition:
    options = tuple((key, "append" if key.lower() == "existing" else value) for key, value in sink.options)
    return replace(sink, options=options)

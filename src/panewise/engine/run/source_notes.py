"""How far the sources of an engine were read, so that the next run continues there.

Batches of a source have numbers, 1, 2, 3 and so on, and are pushed under the producer `source:STREAM`; the engine knows
the last number that it took. The next run reads the source from its beginning and skips the batches that were taken.
That is right only if the files that were read are still there, unchanged and first in name order. So they are noted
here, and in `sources.json` if the engine has a folder. One process does not open a file again that it has read to its
end.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

from panewise.engine.books.books import Books
from panewise.engine.durability.durable_folder import ENGINE
from panewise.engine.ingest.stream import Stream
from panewise.engine.run.flows import Flow, flows_of
from panewise.errors import ConnectorError

SOURCES = "sources.json"


def notes_folder(engine: Path, *, in_data_folder: bool) -> Path:
    """Where the runs of an engine keep their notes: in the data folder around the engine's folder, if there is one.

    `in_data_folder`: it is known to lie in one. Otherwise the folder around is one if a run has left notes there.
    """
    around = engine.parent
    if engine.name != ENGINE or (engine / SOURCES).exists():
        return engine
    return around if in_data_folder or (around / SOURCES).exists() else engine


def producer_of(stream: str) -> str:
    """The producer under which batches of a stream's source are pushed."""
    return f"source:{stream.lower()}"


class SourceNotes:
    """The progress of the sources of one engine."""

    def __init__(self, books: Books, folder: Path | None) -> None:
        self._books = books
        self._file = None if folder is None else folder / SOURCES
        self._files: dict[str, list[list[object]]] = {}  # by lower-case stream: names and sizes
        if self._file is not None and self._file.exists():
            self._files = json.loads(self._file.read_text(encoding="utf-8"))
        self._now: dict[str, list[list[object]]] = {}  # names and sizes when the sources were last opened
        self._to_skip: dict[str, tuple[int, int]] = {}  # sources with batches to skip: batches taken, files noted
        self._begun: dict[str, int] = {}  # number of files from which a batch was taken
        self._ended: dict[str, tuple[int, int]] = {}  # sources that were read to their end: number of files, of batches
        self._unnumbered: WeakKeyDictionary[Stream, int] = WeakKeyDictionary()  # last batch, where the engine has none

    def flows(self, only: Collection[str] | None = None) -> list[Flow]:
        """A flow for each source; ConnectorError if a file that was read in this process has changed.

        A file that was read in an earlier process is checked when its batches are skipped.
        """
        flows = flows_of(self._books.catalog, only)
        found = dict(self._files)
        for flow in flows:
            key, taken = flow.stream.name.lower(), self.taken(flow)
            now = self._now[key] = _names_and_sizes(flow)
            if taken:
                known = self._files.get(key, [])
                _check_unchanged(flow.stream.name, known[: self._begun.get(key, 0)], now)
                flow.check_files_by(partial(_check_skipped, flow, taken, known, now))
                found[key] = [*known, *now[len(known) :]]  # files that were read stay noted until they are checked
                self._to_skip[key] = taken, len(known)
            else:  # the notes are of another stream that had this name
                self._ended.pop(key, None)
                self._begun.pop(key, None)
                found[key] = now
            self._begun.setdefault(key, 0)
        if found != self._files or (self._file is not None and not self._file.exists()):
            self._files = found
            self._save()
        return flows

    def goes_on(self, flow: Flow) -> bool:
        """Whether a source may have new rows. Its flow then begins after the files that were read to their end."""
        files, batches = self._ended.get(flow.stream.name.lower(), (0, 0))
        if not batches or self.taken(flow) < batches:
            return True
        flow.begin_after(files, batches)
        return len(flow.source.files) > files  # a source without files makes the same rows again

    def taken(self, flow: Flow) -> int:
        """The number of the last batch that the engine has taken; 0 if there was none."""
        stream = self._books.stream(flow.stream.name)
        return self._unnumbered.get(stream) or stream.producers.get(producer_of(stream.name), 0)

    def is_numbered(self, stream: str) -> bool:
        """Whether the engine itself notes the numbers. A stream with a queue gets pushes without numbers, because
        numbered pushes bypass the queue."""
        target = self._books.stream(stream)
        return self._books.log is not None or (target.queue is None and target not in self._unnumbered)

    def took(self, flow: Flow) -> None:
        """The last batch that was read has been pushed, by this run or by an earlier one."""
        key = flow.stream.name.lower()
        if flow.batches >= self._to_skip.get(key, (0, 0))[0]:
            self._to_skip.pop(key, None)
        begun = self._begun[key]
        if flow.file > begun:
            self._begun[key] = flow.file
            if self._files[key][begun : flow.file] != self._now[key][begun : flow.file]:  # changed before it was read
                self._files[key][begun : flow.file] = self._now[key][begun : flow.file]
                self._save()
        if not self.is_numbered(flow.stream.name):
            stream = self._books.stream(flow.stream.name)
            self._unnumbered[stream] = max(self._unnumbered.get(stream, 0), flow.batches)

    def ended(self, flow: Flow) -> None:
        """All batches of the noted files have been taken."""
        key = flow.stream.name.lower()
        self._files[key] = self._now[key]
        self._begun[key] = len(self._files[key])
        self._ended[key] = len(self._files[key]), flow.batches

    def close(self) -> None:
        """The run has ended. Files from which no batch was taken may change, as one with a mistake has to."""
        for key, files in self._files.items():
            noted = self._to_skip.get(key, (0, 0))[1]
            self._files[key] = files[: max(self._begun.get(key, 0), noted)]
        self._save()

    def _save(self) -> None:
        if self._file is not None:
            unfinished = self._file.with_name(f".{SOURCES}")
            unfinished.touch(0o600)
            unfinished.write_text(json.dumps(self._files), encoding="utf-8")
            unfinished.replace(self._file)


def _names_and_sizes(flow: Flow) -> list[list[object]]:
    try:
        return [[str(part.absolute()), part.stat().st_size] for part in flow.source.files]
    except OSError as error:
        raise ConnectorError(f"a file of stream '{flow.stream.name}' cannot be read: {error}") from error


def _check_skipped(flow: Flow, taken: int, known: list[list[object]], files: list[list[object]], position: int) -> None:
    """Called before the file at `position` is read, and after the last one. While batches are skipped, the files up to
    there must be unchanged."""
    if flow.batches < taken:
        _check_unchanged(flow.stream.name, known[:position], files)


def _check_unchanged(stream: str, known: list[list[object]], files: list[list[object]]) -> None:
    for position, (name, size) in enumerate(known):
        if files[position : position + 1] == [[name, size]]:
            continue
        now = "it is no longer the next in name order" if [name, size] in files else "it has changed or is gone"
        raise ConnectorError(
            f"stream '{stream}' was read from '{name}' before, and {now}",
            hint="put it back, and give new files names that sort behind those that were read; or begin anew with "
            "another path",
        )

"""Compares the paths of sinks with those of streams and tables: a run must never write into its own input.

A sink is refused if its path is a file that a source reads, lies in a source's folder, or is a folder around a source.
If a source is a pattern, this applies to the files that match now, and to files that the sink would add and that would
match. Links are followed and files are compared by identity, so that a second name for a file is detected. Remote paths
(`s3://...`) are not compared. Two sinks must have different paths, because each numbers its parts or truncates its file
without regard to others.

Cost: when sinks are opened, one listing of each source per sink whose path exists already.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from panewise.catalog import Catalog, Definition, SinkDefinition, StreamDefinition, TableDefinition
from panewise.connectors.options import written_option
from panewise.errors import ConnectorError

# Examples of the files that a sink writes to a folder, without and with row numbers.
_PARTS = ("part-00000.parquet", "part-00000-000000000000.parquet")


@dataclass(frozen=True)
class _Source:
    """The place that a stream or table reads."""

    owner: str
    written: str
    place: Path  # with links resolved; in a pattern only links before its first wildcard

    def files(self) -> Iterator[Path]:
        if self.place.is_dir():
            yield from self.place.rglob("*")
        elif glob.has_magic(self.written):
            yield from map(Path, glob.glob(str(self.place), recursive=True))
        else:
            yield self.place

    def matches(self, file: Path) -> bool:
        """Whether the source is a pattern that a new file of this name would match."""
        pattern = str(self.place)
        if not glob.has_magic(pattern) or self.place.exists() or not fnmatchcase(str(file), pattern):
            return False
        return "**" in pattern or len(file.parts) == len(self.place.parts)


def check_places(catalog: Catalog) -> None:
    """Raises ConnectorError if a sink writes into the input of a stream or table, or to the path of another sink."""
    places: dict[Path, str] = {}
    for sink in catalog:
        place = _local(sink) if isinstance(sink, SinkDefinition) else None
        if place is None or place.is_char_device():  # several sinks may write to a terminal
            continue
        other = places.setdefault(place.resolve(), sink.name)
        if other != sink.name:
            raise ConnectorError(
                f"the sinks '{other}' and '{sink.name}' write to one place, '{place}'",
                hint="give each a path of its own",
            )
    if places:
        check_against_sources(catalog, catalog)


def check_against_sources(sinks: Iterable[Definition], definitions: Iterable[Definition]) -> None:
    """Raises ConnectorError if one of `sinks` writes into the input of a stream or table of `definitions`."""
    sources = list(_sources(definitions))
    for sink in sinks:
        place = _local(sink) if isinstance(sink, SinkDefinition) else None
        for source in sources if place is not None else ():
            assert place is not None
            how = _meets(place, source)
            if how:
                raise ConnectorError(
                    f"sink '{sink.name}' would write into the input of {source.owner}: its path '{place}' {how} "
                    f"'{source.written}'",
                    hint="give the sink a path elsewhere",
                )


def _meets(place: Path, source: _Source) -> str:
    """How a sink's place overlaps a source's, for the error message. Empty if it does not."""
    real = place.resolve()
    if real == source.place:
        return "is"
    if source.place.is_dir() and source.place in real.parents:
        return "lies in"
    named = place.parent.resolve() / place.name  # a link whose name a pattern may match
    if any(source.matches(file) for path in (named, real) for file in (path, *(path / part for part in _PARTS))):
        return "would be read by"
    for file in source.files() if real.exists() else ():
        if file.exists() and real.samefile(file):
            return "is a file of"
        if real in file.resolve().parents:
            return "is a folder around"
    return "is a folder around" if real in source.place.parents else ""


def _sources(definitions: Iterable[Definition]) -> Iterator[_Source]:
    for definition in definitions:
        if isinstance(definition, StreamDefinition | TableDefinition):
            place = _local(definition)
            if place is not None:
                kind = "table" if isinstance(definition, TableDefinition) else "stream"
                yield _Source(f"{kind} '{definition.name}'", str(place), _resolved(place))


def _resolved(place: Path) -> Path:
    """The path with links resolved; in a pattern, only those before its first wildcard."""
    magic = [] if place.exists() else [n for n, part in enumerate(place.parts) if glob.has_magic(part)]
    return Path(*place.parts[: magic[0]]).resolve().joinpath(*place.parts[magic[0] :]) if magic else place.resolve()


def _local(definition: StreamDefinition | TableDefinition | SinkDefinition) -> Path | None:
    """The path on this machine that the definition names, or None."""
    written = written_option(definition.options, "path")
    if not isinstance(written, str) or not written:
        return None
    path = re.sub("^file:/+", "/", written)
    return None if "://" in path else Path(path)

"""Where sinks write, beside where streams and tables read: a run never writes into its own input.

A sink is refused where its path is a file that a source reads, lies in the folder of one, or is a folder around one. A
source that is a pattern has the files that match now; a sink that would write one more of them is refused too. Links
are followed, and files compared by what they are, so that another name for a file does not hide it. Paths of other
machines (`s3://...`) are not compared. Two sinks need two places: each numbers its parts, or cuts its file, as if it
were alone.

Cost: one listing of each source for each sink whose path is there already, when sinks are opened.
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

# What a sink with a folder writes there, with and without numbers of rows.
_PARTS = ("part-00000.parquet", "part-00000-000000000000.parquet")


@dataclass(frozen=True)
class _Source:
    """The place that a stream or table reads."""

    owner: str
    written: str
    place: Path  # links followed; for a pattern those before its first `*`

    def files(self) -> Iterator[Path]:
        if self.place.is_dir():
            yield from self.place.rglob("*")
        elif glob.has_magic(self.written):
            yield from map(Path, glob.glob(str(self.place), recursive=True))
        else:
            yield self.place

    def matches(self, file: Path) -> bool:
        """Whether a pattern would have a file that is not there yet."""
        pattern = str(self.place)
        if not glob.has_magic(pattern) or self.place.exists() or not fnmatchcase(str(file), pattern):
            return False
        return "**" in pattern or len(file.parts) == len(self.place.parts)


def check_places(catalog: Catalog) -> None:
    """ConnectorError where a sink writes to what a stream or table reads, or to the place of another sink."""
    places: dict[Path, str] = {}
    for sink in catalog:
        place = _local(sink) if isinstance(sink, SinkDefinition) else None
        if place is None or place.is_char_device():  # a terminal takes what anybody writes
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
    """ConnectorError where a sink of the first ones writes to what a stream or table of the others reads."""
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
    """In which way a sink's place is also a source's; nothing where it is not."""
    real = place.resolve()
    if real == source.place:
        return "is"
    if source.place.is_dir() and source.place in real.parents:
        return "lies in"
    named = place.parent.resolve() / place.name  # it may be a link that a pattern finds by its name
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
    """Links followed, of a pattern as far as it names one folder."""
    magic = [] if place.exists() else [n for n, part in enumerate(place.parts) if glob.has_magic(part)]
    return Path(*place.parts[: magic[0]]).resolve().joinpath(*place.parts[magic[0] :]) if magic else place.resolve()


def _local(definition: StreamDefinition | TableDefinition | SinkDefinition) -> Path | None:
    """The path of this machine that it names."""
    written = written_option(definition.options, "path")
    if not isinstance(written, str) or not written:
        return None
    path = re.sub("^file:/+", "/", written)
    return None if "://" in path else Path(path)

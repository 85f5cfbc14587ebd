"""The files that a path names: one file, the files of a folder, or the matches of a glob."""

from __future__ import annotations

import glob
from pathlib import Path

from panewise.errors import ConnectorError

# By connector, the file name endings that count as data in a folder.
ENDINGS = {"parquet": (".parquet",), "csv": (".csv", ".tsv", ".txt"), "json": (".json", ".jsonl", ".ndjson")}
_COMPRESSED = ("", ".gz", ".bz2", ".zst", ".lz4")


def files_of(path: str, endings: tuple[str, ...], owner: str) -> list[Path]:
    """The files in name order. In a folder, at any depth, those with one of the endings count, compressed or not.

    As in Spark, hidden files and files whose name begins with `_` are not data.
    """
    place = Path(path)
    if place.is_dir():
        wanted = tuple(ending + packed for ending in endings for packed in _COMPRESSED)
        found = [f for f in place.rglob("*") if f.is_file() and f.name.endswith(wanted) and _visible(f, place)]
        if not found:
            raise ConnectorError(f"the folder '{path}' of {owner} holds no {' or '.join(endings)} files")
        return sorted(found)
    if place.is_file():
        return [place]
    if glob.has_magic(path):
        found = [Path(name) for name in glob.glob(path, recursive=True) if Path(name).is_file()]
        if not found:
            raise ConnectorError(f"no file matches '{path}' of {owner}")
        return sorted(found)
    raise ConnectorError(f"the path '{path}' of {owner} does not exist", hint=_nearest_existing(place))


def _visible(file: Path, folder: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _nearest_existing(place: Path) -> str:
    existing = next((parent for parent in place.absolute().parents if parent.is_dir()), Path("/"))
    names = sorted(child.name for child in existing.iterdir() if not child.name.startswith("."))[:8]
    return f"the folder '{existing}' holds {', '.join(names) if names else 'nothing'}"

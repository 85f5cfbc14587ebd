"""Dataclasses as they are written to disk: each field has a written name that never changes.

Renaming a field in the code therefore does not change the format. Beside the fields stands a number, `format`: a newer
version reads all older formats, and an older version refuses newer ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Generic, TypeVar

from panewise.errors import SnapshotError

T = TypeVar("T")
FORMAT = "format"


class Record(Generic[T]):
    """How one dataclass is written. `names` are the written names, with `written=field` if the two differ.

    Every field has a written name, or is in `unwritten` and has a default. When an older record is read, fields that it
    lacks get their defaults, and written names that are no longer known are ignored.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Place:
    ...     x: int
    ...     depth: int = 0
    >>> record = Record(Place, "x y=depth")
    >>> record.to_dict(Place(1, 2)), record.of_dict({"x": 5, "colour": "red"})
    ({'x': 1, 'y': 2}, Place(x=5, depth=0))
    """

    def __init__(self, cls: type[T], names: str, *, unwritten: str = "") -> None:
        self._class = cls
        pairs = [name.partition("=") for name in names.split()]
        self._fields = {written: field or written for written, _, field in pairs}  # by written name
        known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
        assert {*self._fields.values(), *unwritten.split()} == set(known), f"fields of {cls.__name__} without a name"
        self._needed = {
            written
            for written, field in self._fields.items()
            if known[field].default is MISSING and known[field].default_factory is MISSING
        }

    def to_dict(self, value: T) -> dict[str, Any]:
        return {written: getattr(value, field) for written, field in self._fields.items()}

    def of_dict(self, data: Mapping[str, Any]) -> T:
        missing = self._needed - data.keys()
        if missing:
            raise SnapshotError(f"the record of a {self._class.__name__} lacks {', '.join(sorted(missing))}")
        return self._class(**{field: data[written] for written, field in self._fields.items() if written in data})


def check_format(data: Mapping[str, Any], newest: int, what: str) -> None:
    """Refuses what a newer version has written. Data without a number is from before there were numbers: format 1."""
    found = data.get(FORMAT, 1)
    if not isinstance(found, int) or not 1 <= found <= newest:
        raise SnapshotError(
            f"{what} has format {found}, and this panewise reads formats up to {newest}",
            hint="read it with the panewise that wrote it, or a newer one",
        )

"""Changes of a pipeline's definitions: one file each in the folder `catalog/`, written once.

A change has its statements as text, and what was decided on each query: how it is planned, and the numbers of its
fragment and family. State and partials are kept under these numbers, so a later panewise that would plan or number
otherwise still finds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panewise.language.statements import Statement
from panewise.spark.environment.folder import Folder
from panewise.state.records import FORMAT, Record, check_format

CHANGE_FORMAT = 2  # format 1 had no places


@dataclass(frozen=True)
class StoredPlace:
    """The numbers under which the state and partials of a query are kept. They are decided once.

    `family` and `selection` are 0 in a row fragment. `decided` is what the planner has decided on the query, as it is
    written down (`plan/decided.py`); it is empty where an older panewise had planned by assumptions alone.
    """

    fragment: int
    family: int = 0
    selection: int = 0
    decided: Mapping[str, Any] = field(default_factory=dict)


PLACE = Record(StoredPlace, "fragment tree=family selection decided")


@dataclass(frozen=True)
class ChangeStatement:
    """A statement of a change. `bound` is set if this process has bound it to the definitions that hold before it.

    The plans of bound queries are in `MadeQueries`.
    """

    text: str
    bound: Statement | None = None


@dataclass(frozen=True)
class Change:
    """Statements that take hold together, with micro-batch `from_batch`, and the places of the queries they create.

    Without `places`, the places are decided when the change is applied. `places_by_name`: in the way of a panewise that
    did not write them down, by the names of the queries that need all rows in one bucket.
    """

    version: int
    from_batch: int
    statements: tuple[str, ...]
    places: Mapping[str, StoredPlace] | None = None
    places_by_name: bool = False

    @property
    def file(self) -> str:
        return f"catalog/{self.version:06d}.json"


def read_change(folder: Folder, number: int) -> Change:
    data = folder.read_json(f"catalog/{number:06d}.json")
    check_format(data, CHANGE_FORMAT, f"change {number} of the checkpoint's catalog")
    places = data.get("places")
    if places is not None:
        places = {query: PLACE.of_dict(place) for query, place in places.items()}
    return Change(data["version"], data["from_batch"], tuple(data["statements"]), places, places is None)


def write_change(folder: Folder, change: Change) -> None:
    folder.write_json(
        change.file,
        {
            FORMAT: CHANGE_FORMAT,
            "version": change.version,
            "from_batch": change.from_batch,
            "statements": list(change.statements),
            "places": {query: PLACE.to_dict(place) for query, place in (change.places or {}).items()},
        },
    )

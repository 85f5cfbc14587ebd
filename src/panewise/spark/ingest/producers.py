"""The numbers of pushes: the last one taken, for each stream and producer, so that a push may be repeated.

A push is taken when its message is in the inbox. Before that, a note says which number the message will have. After a
crash in between, the message was posted if its number is below the next one: the newest message is never removed. Cost:
two small files for each push, and one file for each producer.
"""

from __future__ import annotations

import hashlib

from panewise.engine.ingest.journal import Stamp
from panewise.spark.environment.folder import Folder

NOTE = "producers/note.json"


class Producers:
    """The writing side, in the driver; `next_message` is the number of the next message of the inbox."""

    def __init__(self, folder: Folder, next_message: int) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str], int] = {}
        note = folder.read_json(NOTE)
        if note is not None and note["letter"] < next_message:
            stamp = note["producer"], note["sequence"]
            if self.last(note["stream"], stamp[0]) < stamp[1]:
                self.took(note["stream"], stamp)
        self.give_up()

    def last(self, stream: str, producer: str) -> int:
        """The number of the last push; 0 where there was none."""
        known = self._known.get((stream, producer))
        if known is None:
            found = self._folder.read_json(_file(stream, producer))
            known = self._known[stream, producer] = 0 if found is None else int(found["sequence"])
        return known

    def begin(self, stream: str, stamp: Stamp, message: int) -> None:
        """Notes that a push will be posted as this message."""
        self._folder.write_json(NOTE, {"stream": stream, "producer": stamp[0], "sequence": stamp[1], "letter": message})

    def took(self, stream: str, stamp: Stamp) -> None:
        """Call when the message of a push has been posted."""
        record = {"stream": stream, "producer": stamp[0], "sequence": stamp[1]}
        self._folder.write_json(_file(stream, stamp[0]), record)
        self._known[stream, stamp[0]] = stamp[1]

    def give_up(self) -> None:
        """Removes the note. Call when its push was taken or given up: another message may then get the number."""
        self._folder.remove(NOTE)


def _file(stream: str, producer: str) -> str:
    return f"producers/{hashlib.sha256(f'{stream} {producer}'.encode()).hexdigest()}.json"

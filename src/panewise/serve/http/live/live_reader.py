"""Makes the messages for a subscriber to live results; the same for WebSockets and server-sent events.

    hello   {"query", "series", "columns", "held_from", "next"}   once; `next` is the number of the next row
    rows    {"query", "first", "next", "rows"}                    rows `first` to `next` - 1, in order, none twice
    gap     {"query", "from", "to", "reset"?}                     rows before `to` will not come; `to` is the next one
    end     {"query", "reason"}                                   the last message

A reader is only a position in a series; it has no queue and no task. `message` makes the next message from the rows
that the log holds at that moment. So a slow subscriber needs no memory and gets larger blocks later; one that falls
behind the rows that are held gets a gap. `from` is null if the subscriber named a window instead of a number. `reset`
is true if its number belonged to another series of the same name; then `to` may be smaller than `from`.

The JSON of a block is made once for all subscribers at the same position (`Blocks`). A subscriber that reaches the
position later gets the same block, so subscribers that have drifted apart meet again at its end.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from panewise.serve.http.results.result_series import Ended, Gone, Series
from panewise.serve.http.results.row_json import json_columns, json_rows

BLOCK_ROWS = 1_000
# Size as Arrow; the JSON may be several times larger. Many WebSocket clients refuse messages above a mebibyte.
BLOCK_BYTES = 128 << 10
CACHE_BYTES = 32 << 20


class Message(NamedTuple):
    """A message as text. `next` is the reader's position after it."""

    kind: str
    text: str
    next: int


@dataclass(frozen=True)
class ReaderPlace:
    """Where a subscriber wants to begin: at a number, after a window, or, without either, with new rows.

    `series` is the series that it has read before, if it names one.
    """

    start: int | None = None
    after_window_us: int | None = None
    series: str | None = None


class Blocks:
    """A cache of blocks of rows as text, by series and first number; evicts the least recently used. For one loop."""

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        self.made = 0
        self._texts: OrderedDict[tuple[str, int], Message] = OrderedDict()
        self._characters = 0
        self._cache_bytes = cache_bytes

    def block(self, series: Series, first: int) -> Message | None:
        """The message with the rows from a number on; None if there are none yet. Raises as `Series.read`."""
        found = self._texts.get((series.id, first))
        # Never serve rows from the cache that the log no longer holds, so that all subscribers get the same.
        if found is not None and first >= series.bounds()[0]:
            self._texts.move_to_end((series.id, first))
            return found
        _, table = series.read(first, BLOCK_ROWS)
        if not table.num_rows:
            return None
        if table.nbytes > BLOCK_BYTES:
            table = table.slice(0, max(1, table.num_rows * BLOCK_BYTES // table.nbytes))
        end = first + table.num_rows
        head = orjson.dumps({"type": "rows", "query": series.name, "first": first, "next": end})
        message = Message("rows", (head[:-1] + b',"rows":' + json_rows(table) + b"}").decode(), end)
        self._keep((series.id, first), message)
        return message

    def _keep(self, key: tuple[str, int], message: Message) -> None:
        self.made += 1
        before = self._texts.pop(key, None)
        self._characters += len(message.text) - (0 if before is None else len(before.text))
        self._texts[key] = message
        while self._characters > self._cache_bytes:
            self._characters -= len(self._texts.popitem(last=False)[1].text)


class LiveReader:
    """A subscriber's position in a series."""

    def __init__(self, series: Series, place: ReaderPlace, blocks: Blocks) -> None:
        self.series = series
        self.ended = False
        self._blocks = blocks
        held_from, end = series.bounds()
        self.next, gap = _beginning(series, place, held_from, end)
        self._first_messages = [self._hello(held_from), *gap]

    def message(self) -> Message | None:
        """The next message; None if there is none now, or if the end has been sent."""
        if self._first_messages:
            return self._first_messages.pop(0)
        if self.ended:
            return None
        try:
            message = self._blocks.block(self.series, self.next)
        except Gone as gone:
            message = _message("gap", self.series, gone.first_held, {"from": self.next, "to": gone.first_held})
        except Ended as ended:
            return self.end(ended.reason)
        if message is not None:
            self.next = message.next
        return message

    def end(self, reason: str) -> Message:
        """Makes the last message; `message` returns None afterwards."""
        self.ended = True
        return _message("end", self.series, self.next, {"reason": reason})

    def heartbeat(self) -> Message:
        """A message that keeps the connection alive and tells the position."""
        return _message("heartbeat", self.series, self.next, {"next": self.next})

    def _hello(self, held_from: int) -> Message:
        told = {
            "series": self.series.id,
            "columns": json_columns(self.series.schema),
            "held_from": held_from,
            "next": self.next,
        }
        return _message("hello", self.series, self.next, told)


def _beginning(series: Series, place: ReaderPlace, held_from: int, end: int) -> tuple[int, list[Message]]:
    """The first position, and a message for the gap before it if there is one."""
    start: int | None = place.start
    if place.series is not None and place.series != series.id:
        return held_from, [_gap(series, start, held_from, reset=True)]
    if start is None and place.after_window_us is not None:
        try:
            start = series.after_window(place.after_window_us)
        except Gone as gone:
            return gone.first_held, [_gap(series, None, gone.first_held)]
    if start is None:
        return end, []
    if start > end:
        # The series has not reached this number, so it belongs to another series, which the subscriber did not name.
        return end, [_gap(series, start, end, reset=True)]
    if start < held_from:
        return held_from, [_gap(series, start, held_from)]
    return start, []


def _gap(series: Series, since: int | None, until: int, reset: bool = False) -> Message:
    return _message("gap", series, until, {"from": since, "to": until} | ({"reset": True} if reset else {}))


def _message(kind: str, series: Series, position: int, told: dict[str, Any]) -> Message:
    return Message(kind, orjson.dumps({"type": kind, "query": series.name} | told).decode(), position)

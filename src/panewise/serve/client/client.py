"""`panewise.connect(url, token)`: a server's streams and queries with the methods of `panewise.Engine`.

    import panewise as pw

    with pw.connect("http://127.0.0.1:8461") as client:
        client.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT)")
        client.push("t", {"ts": 0, "v": 1})

Every method raises what the engine's would raise, and ServerError for failures of the network and the server. Several
threads may use one client. It holds the numbers of its pushes, how far it has read the results of each query, and its
open subscriptions; the server holds everything else. See docs/client.md.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import httpx
import pyarrow as pa

from panewise.engine.ingest.late_remarks import Remarks, warn
from panewise.errors import BadRowsWarning, DataError, LateRowsWarning, ServerError
from panewise.serve.client.live import Live, OnGap
from panewise.serve.client.numbering import Numbering
from panewise.serve.client.result_reader import ResultReader
from panewise.serve.client.socket_connection import SocketConnection
from panewise.serve.client.subscription import Subscription
from panewise.serve.client.transport import Transport, path_of
from panewise.serve.client.wire import ARROW, JSON, batch_of, json_key, packed, schema_of, unpacked
from panewise.temporal import instant_us

# A single statement that changes nothing and may therefore be sent again.
_READS = re.compile(r"\s*(SHOW|EXPLAIN|SELECT)\b[^;]*;?\s*", re.IGNORECASE)
_WARNINGS: dict[str, type[Warning]] = {"late": LateRowsWarning, "bad": BadRowsWarning}  # field of the answer -> warning
_WANTS_ARROW = {"Accept": f"{ARROW}, {JSON};q=0.5"}


@dataclass(frozen=True)
class Explained:
    """A plan, as `Engine.explain` returns it: `str(...)` is its text, `.to_dict()` its data."""

    text: str
    plan: dict[str, Any]

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        return self.plan


def connect(url: str, token: str | None = None, *, timeout: float = 30.0, wait: float = 0.0) -> Client:
    """Returns a client of the server at this address, after the server has answered.

    `timeout`: seconds that a call may take, including retries. `wait`: seconds to wait for a server that is not
    running yet.
    """
    client = Client(url, token, timeout=timeout)
    try:
        client.check(wait)
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """The streams and queries of a server."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Sends nothing; `connect` also checks that the server answers. `transport` is httpx's, for tests."""
        self._transport = Transport(url, token, timeout, transport=transport)
        self._producer = f"client-{secrets.token_hex(8)}"
        self._numberings: dict[tuple[str, str], Numbering] = {}
        self._readers: dict[str, ResultReader] = {}
        self._open: weakref.WeakSet[Live | Subscription] = weakref.WeakSet()
        self._remarks: dict[tuple[str, str], Remarks] = {}  # by stream and kind
        self._lock = threading.Lock()  # for the four above

    @property
    def url(self) -> str:
        return str(self._transport.url)

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def check(self, wait: float = 0.0) -> None:
        """Raises ServerError if no server answers within `wait` seconds, or if it refuses the token."""
        self._transport.request("POST", "v1/statements", json={"text": "SHOW STREAMS"}, wait_s=wait)

    # -- statements ----------------------------------------------------------------------------------------------

    def execute(self, text: str) -> pa.Table | None:
        """Runs one or more statements; returns the table of the last one that has one (SHOW, EXPLAIN, SELECT)."""
        answer = self._transport.request(
            "POST",
            "v1/statements",
            json={"text": text},
            headers=_WANTS_ARROW,
            statement=text,
            repeatable=_READS.fullmatch(text) is not None,
        )
        if answer.status_code == 204:
            return None
        table = _table(answer)
        return table if table.num_columns else None

    def explain(self, query: str | None = None) -> Explained:
        """The plan of one query, or of everything."""
        path = "v1/explain" if query is None else path_of("v1", "queries", query, "explain")
        told = self._transport.request("GET", path).json()
        return Explained(told["text"], told["plan"])

    def stats(self) -> dict[str, Any]:
        """Rows, late rows, slices and bytes of state for each stream, table, query and tree."""
        told: dict[str, Any] = self._transport.request("GET", "v1/stats").json()
        return told

    def queries(self) -> list[dict[str, Any]]:
        """The queries of the server: name, statement, status, reason, columns and figures of each."""
        told = self._transport.request("GET", "v1/queries").json()
        found: list[dict[str, Any]] = told["queries"] if isinstance(told, dict) else told
        return found

    # -- rows ----------------------------------------------------------------------------------------------------

    def push(self, stream: str, data: Any, *, producer: str | None = None, sequence: int | None = None) -> None:
        """Pushes rows to a stream: an Arrow batch or table, a pandas or polars frame, a dict or a list of dicts.

        Every push carries a producer's name and a sequence number, so the server takes it once even if it is sent
        again. By default the name is random and the client counts. With your own `producer`, numbers continue after the
        last one that the server has taken. With `sequence` you choose the number.
        """
        body, media = packed(stream, data)
        name = self._producer if producer is None else producer
        if not (name and name.isascii() and name.isprintable()):
            raise DataError(f"the name of a producer consists of printable ASCII characters, not {name!r}")
        if sequence is not None:
            told = self._send(stream, body, media, name, sequence)
        else:
            told = self._numbering(stream, name).push(lambda number: self._send(stream, body, media, name, number))
        due = [
            kind(told[name]["remark"]) for name, kind in _WARNINGS.items() if self._is_due(stream, name, told.get(name))
        ]
        for warning in due:  # last, because a filter may turn a warning into an exception
            warn(warning)

    def _is_due(self, stream: str, kind: str, said: dict[str, Any] | None) -> bool:
        """Whether to warn of late or bad rows now, by the same rule as the engine."""
        key = stream.lower(), kind
        with self._lock:
            if said is None or (key in self._remarks and said["rows"] < self._remarks[key].remarked_at):
                self._remarks.pop(key, None)  # the stream was dropped and created again
            return said is not None and self._remarks.setdefault(key, Remarks()).due(said["rows"])

    def _send(self, stream: str, body: bytes, media: str, producer: str, sequence: int) -> dict[str, Any]:
        headers = {"Content-Type": media, "Panewise-Producer": producer, "Panewise-Sequence": str(sequence)}
        path = path_of("v1", "streams", stream, "rows")
        try:
            told: dict[str, Any] = self._transport.request("POST", path, content=body, headers=headers).json()
        except ServerError as problem:
            if problem.status is None and problem.hint is None:
                problem.hint = f"it may have been taken; push it again with {producer=}, {sequence=}: it counts once"
            raise
        return told

    def _numbering(self, stream: str, producer: str) -> Numbering:
        with self._lock:
            numbering = self._numberings.get((stream.lower(), producer))
            if numbering is None:
                # No other client has this random name, so its first number is 1.
                last = 0 if producer == self._producer else None
                numbering = Numbering(lambda: self.last_sequence(stream, producer), last=last)
                self._numberings[stream.lower(), producer] = numbering
            return numbering

    def last_sequence(self, stream: str, producer: str) -> int:
        """The number of the producer's last push that the server has taken; 0 if there is none."""
        told = self._transport.request("GET", path_of("v1", "streams", stream, "producers", producer)).json()
        return int(told["sequence"])

    def advance(self, stream: str, until: Any) -> None:
        """Sends a punctuation: no row before this instant (microseconds, a datetime or a text) will come."""
        path = path_of("v1", "streams", stream, "advance")
        self._transport.request("POST", path, json={"until": instant_us(until)})

    # -- answers -------------------------------------------------------------------------------------------------

    def lookup(self, query: str, at: Any = None, key: Any = None) -> pa.Table:
        """The answer now, or at an instant still held; `key` selects one group.

        `key`: a value, a list of values in the order of GROUP BY, or a dict of columns.
        """
        asked: dict[str, str] = {}
        if at is not None:
            asked["at"] = str(instant_us(at))
        if key is not None:
            asked["key"] = json.dumps(json_key(key))
        path = path_of("v1", "queries", query, "lookup")
        return _table(self._transport.request("GET", path, params=asked, headers=_WANTS_ARROW))

    def results(self, query: str) -> pa.Table:
        """The results since this client's last call; at the first call, all that are held.

        Clients do not affect each other: each reads by row number. Raises NotHeldError if rows since the last call are
        no longer held; the next call then returns those that are.
        """
        with self._lock:
            reader = self._readers.setdefault(query.lower(), ResultReader(self._transport, query))
        return reader.read()

    def live(
        self,
        query: str,
        start: int | None = None,
        *,
        series: str | None = None,
        on_gap: OnGap | None = None,
        wait: float = 300.0,
    ) -> Live:
        """An iterator over batches of results as they appear, each row once: from now on, or from row `start` on.

        A lost connection is reopened for up to `wait` seconds and continues after the last row. Iteration ends when the
        query is dropped. If the server no longer holds some rows, `on_gap(first, next)` is called; without it,
        NotHeldError is raised. Pass the `series` that `start` belongs to, and iteration ends if the query has been
        dropped and created again since.
        """
        live = Live(
            query,
            lambda start, series: SocketConnection(self._transport, query, start, series),
            start=start,
            series=series,
            on_gap=on_gap,
            timeout_s=self._transport.timeout_s,
            wait_s=wait,
        )
        with self._lock:
            self._open.add(live)
        return live

    def subscribe(
        self,
        query: str,
        callback: Callable[[pa.RecordBatch], None],
        start: int | None = None,
        *,
        series: str | None = None,
        on_gap: OnGap | None = None,
        wait: float = 300.0,
    ) -> Subscription:
        """Calls `callback` with each batch of results, in a separate thread; otherwise as `live`."""
        subscription = Subscription(self.live(query, start, series=series, on_gap=on_gap, wait=wait), callback)
        with self._lock:
            self._open.add(subscription)
        return subscription

    # -- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends all subscriptions and connections; the server keeps running."""
        with self._lock:
            opened = list(self._open)
        for one in opened:
            one.close()
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _table(answer: httpx.Response) -> pa.Table:
    """The table of an answer, which is Arrow or JSON."""
    if answer.headers.get("content-type", "").startswith(ARROW):
        return unpacked(answer.content)
    told = answer.json()
    schema = schema_of(told["columns"])
    return pa.Table.from_batches([batch_of(told["rows"], schema)], schema)

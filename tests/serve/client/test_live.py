"""Live results over connections that break anywhere, against the rows that the server has."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import CatalogError, NotHeldError, ServerError
from panewise.serve.client import backoff
from panewise.serve.client.live import Live, Lost
from panewise.serve.client.subscription import Subscription
from tests.waiting import PATIENCE_S

COLUMNS = [{"name": "v", "type": "BIGINT"}]
END = {"type": "end", "reason": "the query was dropped"}


@pytest.fixture(autouse=True)
def _without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_S", 0.0)


class Scripted:
    """A connection that says what it is told to and then breaks."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self._messages = iter(messages)
        self.closed = False

    def receive(self) -> str:
        message = next(self._messages, None)
        if message is None or self.closed:
            raise Lost(ServerError("it broke"))
        return json.dumps(message)

    def close(self) -> None:
        self.closed = True


def hello(next_: int, series: str = "a") -> dict[str, Any]:
    return {"type": "hello", "columns": COLUMNS, "next": next_, "series": series}


def rows(first: int, next_: int) -> dict[str, Any]:
    return {"type": "rows", "first": first, "next": next_, "rows": [[number * 10] for number in range(first, next_)]}


def opening(*scripts: list[dict[str, Any]]) -> tuple[Callable[[int | None, str | None], Scripted], list[int | None]]:
    """Connections by their scripts, one after the other, and the numbers that they were asked to start from."""
    left, starts = iter(scripts), []

    def opened(start: int | None, series: str | None) -> Scripted:
        starts.append(start)
        return Scripted(next(left))

    return opened, starts


def numbers(live: Live) -> list[int]:
    return [value // 10 for batch in live for value in batch.column("v").to_pylist()]


def test_a_lost_connection_goes_on_behind_the_last_row() -> None:
    opened, starts = opening([hello(5), rows(5, 7)], [], [hello(7)], [hello(7), rows(7, 9), END])
    live = Live("q", opened)
    assert numbers(live) == [5, 6, 7, 8]
    assert starts == [None, 7, 7, 7]
    assert (live.next, live.ended) == (9, "the query was dropped")


def test_rows_that_come_again_are_dropped() -> None:
    opened, _ = opening([hello(0), rows(0, 4), rows(2, 6), rows(1, 3), END])
    assert numbers(Live("q", opened, start=0)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("hole", [{"type": "gap", "from": 3, "to": 6}, None])
def test_a_gap_raises_and_iteration_can_go_on(hole: dict[str, Any] | None) -> None:
    first = [hello(3), rows(0, 3), *([hole] if hole else []), rows(6, 8), END]
    opened, starts = opening(first, [hello(6), rows(6, 8), END])
    live = Live("q", opened, start=0)
    assert next(live).num_rows == 3
    with pytest.raises(NotHeldError, match=r"rows 3 to 5 of query 'q'"):
        next(live)
    assert numbers(live) == [6, 7]
    assert starts == [0, 6]


def test_a_gap_is_told_to_who_asks() -> None:
    told: list[tuple[int, int]] = []
    opened, starts = opening([hello(0), {"type": "gap", "from": 0, "to": 4}, rows(4, 5), rows(7, 8), END])
    assert numbers(Live("q", opened, start=0, on_gap=lambda *gap: told.append(gap))) == [4, 7]
    assert (told, starts) == ([(0, 4), (5, 7)], [0])


def test_another_query_of_the_name_is_not_a_continuation() -> None:
    opened, _ = opening([hello(0), rows(0, 2)], [hello(2, series="b"), rows(2, 3)])
    live = Live("q", opened, start=0)
    assert numbers(live) == [0, 1]
    assert live.ended is not None and "query 'q' was dropped and created again" in live.ended
    opened, _ = opening([hello(2, series="b"), rows(2, 3)])
    assert numbers(Live("q", opened, start=2, series="a")) == []


def test_a_number_that_is_not_there_yet_is_refused() -> None:
    reset = {"type": "gap", "from": 70, "to": 4, "reset": True}
    opened, _ = opening([hello(4), reset, rows(4, 5), END], [hello(4), rows(4, 5), END])
    live = Live("q", opened, start=70)
    with pytest.raises(NotHeldError, match="query 'q' has no row 70"):
        next(live)
    assert numbers(live) == [4]
    told: list[tuple[int, int]] = []
    opened, _ = opening([hello(4), reset, rows(4, 5), END])
    assert numbers(Live("q", opened, start=70, on_gap=lambda *gap: told.append(gap))) == [4]
    assert told == [(70, 4)]


def test_a_query_that_is_gone_when_the_server_is_back_has_ended() -> None:
    connections = iter([Scripted([hello(0), rows(0, 2)])])

    def opened(start: int | None, series: str | None) -> Scripted:
        for connection in connections:
            return connection
        raise CatalogError("there is no query 'q'")

    live = Live("q", opened)
    assert numbers(live) == [0, 1]
    assert live.ended == "there is no query 'q'"
    with pytest.raises(CatalogError):
        Live("q", opened)


def test_a_server_that_ends_is_waited_for() -> None:
    opened, starts = opening([hello(0), rows(0, 1), {"type": "end", "reason": "the server ends"}], [hello(1), END])
    assert numbers(Live("q", opened)) == [0]
    assert starts == [None, 1]


def test_a_server_that_stays_away_is_given_up() -> None:
    def opened(start: int | None, series: str | None) -> Scripted:
        if start is None:
            return Scripted([hello(3)])
        raise Lost(ServerError("nothing there"))

    live = Live("q", opened, wait_s=0.05)
    with pytest.raises(ServerError, match="nothing there"):
        next(live)


def test_what_was_left_is_closed() -> None:
    connection = Scripted([hello(0), rows(0, 1), rows(1, 2)])
    for _ in Live("q", lambda start, series: connection):
        break
    gc.collect()
    assert connection.closed


def test_closing_ends_a_wait_for_the_server() -> None:
    def opened(start: int | None, series: str | None) -> Scripted:
        if start is None:
            return Scripted([hello(3)])
        away.set()
        raise Lost(ServerError("nothing there"), at_least_s=60.0)

    away = threading.Event()
    subscription = Subscription(Live("q", opened), lambda batch: None)
    assert away.wait(PATIENCE_S)
    subscription.close()
    assert (subscription.ended, subscription.error) == ("closed", None)


def test_a_callback_that_raises_ends_its_subscription_and_its_batch_is_not_taken() -> None:
    def callback(batch: Any) -> None:
        if batch.column("v")[0].as_py() == 20:
            raise ValueError("no")

    opened, _ = opening([hello(0), rows(0, 2), rows(2, 4), rows(4, 6), END])
    subscription = Subscription(Live("q", opened), callback)
    with pytest.raises(ValueError, match="no"):
        subscription.wait(PATIENCE_S)
    assert subscription.next == 2


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-3, 4), st.integers(1, 5)), max_size=4),
        max_size=6,
    ),
    st.integers(0, 5),
)
def test_every_row_is_handed_out_once_or_named_as_missing(connections: list[list[tuple[int, int]]], start: int) -> None:
    """Each connection brings pieces at random distances from where the reader is, below and above, and breaks."""
    scripts, position = [], start
    for pieces in connections:
        messages = [hello(position)]
        for distance, length in pieces:
            first = max(0, position + distance)
            messages.append(rows(first, first + length))
            position = max(position, first + length)
        scripts.append(messages)
    opened, starts = opening(*scripts, [hello(position), END])
    missing: list[int] = []
    live = Live("q", opened, start=start, on_gap=lambda since, until: missing.extend(range(since, until)))
    found = numbers(live)
    assert sorted(found + missing) == list(range(start, position))
    assert found == sorted(found)
    assert starts == sorted(starts, key=lambda number: number or 0)

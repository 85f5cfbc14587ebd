"""Parses the position at which a subscriber wants to begin; Problem 400 for invalid values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from panewise.serve.http.live.live_reader import ReaderPlace
from panewise.serve.http.results.numbered_rows import time_column
from panewise.serve.http.results.result_series import Series
from panewise.serve.http.routes.query_routes import instant_of
from panewise.serve.http.service.error_answers import Problem

_NUMBER_DIGITS_MOST = 18


def place_of(asked: Mapping[str, Any], series: Series) -> ReaderPlace:
    """The position given by `start`, `after_window` and `series` of an address or a message; by default, new rows."""
    start, window, id = asked.get("start"), asked.get("after_window"), asked.get("series")
    if start is not None and window is not None:
        raise Problem(400, "give 'start' or 'after_window', not both")
    if id is not None and not isinstance(id, str):
        raise Problem(400, "'series' must be a string, the one from 'hello'")
    if window is not None and time_column(series.schema) is None:
        raise Problem(400, f"the results of query '{series.name}' have no column window_end or instant")
    return ReaderPlace(
        None if start is None else number_of(start, "start"),
        None if window is None else instant_of(window, "after_window"),
        id,
    )


def place_of_event(id: str) -> ReaderPlace:
    """The position given by the Last-Event-ID of server-sent events: a row number and its series."""
    number, _, series = id.partition(":")
    return ReaderPlace(number_of(number, "Last-Event-ID"), None, series or None)


def number_of(value: Any, name: str) -> int:
    """The number of a row, from an integer or a string of digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _NUMBER_DIGITS_MOST:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**_NUMBER_DIGITS_MOST:
        raise Problem(400, f"'{name}' must be the number of a row, 0 or more")
    return value

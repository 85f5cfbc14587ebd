"""Intake: makes Arrow batches of the stream's schema from pushes, and finds bad rows before anything changes.

A row is bad if a value does not convert to its column's type, if its timestamp is NULL, outside the years 1 to 9999 or
too far ahead of the clock, or if it would close too many windows of one query (both in `window_limit.py`). The option
`on_bad_row` says what happens: 'fail' refuses the whole push with the row in the message, 'skip' sets the row aside.

A column that has not its type yet is converted in one pass. Only if that fails are bad rows searched for, by halving.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.columns import integers, numbers, texts
from panewise.arrays import Ints
from panewise.catalog import StreamDefinition
from panewise.connectors.conform import converted, is_mixed, parts_of, put_together
from panewise.connectors.epochs import MISREAD_LEAST, MISREAD_MOST, are_misread, is_made_up
from panewise.connectors.options import epoch_of
from panewise.connectors.python_values import fitted, is_unicode, table_of_frame, unfit
from panewise.connectors.row_keys import misspelled
from panewise.engine.ingest.bad_row_remarks import remedy
from panewise.engine.ingest.watermark import survey
from panewise.engine.ingest.window_limit import OF_THE_CLOCK, OFF, TOO_MANY, Extent, WindowLimit
from panewise.errors import DataError, did_you_mean
from panewise.language.sql_text import name_to_sql
from panewise.schema import TIMESTAMP, Column, DataType
from panewise.temporal import EPOCH, INSTANT_MAX, INSTANT_MIN

_MICROSECOND = timedelta(microseconds=1)


class Intake:
    """Converts the pushes to one stream."""

    def __init__(self, definition: StreamDefinition) -> None:
        self.name = definition.name
        self.schema = definition.schema
        self.arrow = definition.schema.to_arrow()
        self.time_index = definition.schema.names.index(definition.timestamp)
        self._makers = [_MAKERS.get(column.type.name) for column in definition.schema]
        self.epoch = epoch_of(definition.options)  # The unit of numbers in TIMESTAMP columns.
        self._definition = definition
        self._plain = [_plain(column.type, self.epoch) for column in definition.schema]
        times = [i for i, column in enumerate(definition.schema) if column.type == TIMESTAMP]
        self._guarded = times if self.epoch is None else []  # Columns whose integers may be in another unit.

    def comes_after(self, extent: Extent) -> None:
        """The stream has rows of this extent. If their times are made up, so may be those of the next rows."""
        if self._guarded and any(time is not None and is_made_up(time) for time in extent):
            self._guarded = []

    def batches(self, data: Any) -> list[pa.RecordBatch]:
        """A push as batches; types are not converted yet, except for plain rows."""
        if isinstance(data, pa.RecordBatch):
            return [data]
        if isinstance(data, pa.Table):
            return list(data.to_batches())
        if isinstance(data, dict):
            data = [data]
        if isinstance(data, list):
            plain = [self.plain_row(row) if type(row) is dict else None for row in data]
            if plain and None not in plain:
                return [self.batch_of([row for row in plain if row is not None])]
            return self._from_rows(data) if data else []
        try:
            return self._from_frame(data)
        except unfit() as problem:
            raise self._refused(data, f": {problem}") from None

    def _from_frame(self, data: Any) -> list[pa.RecordBatch]:
        if hasattr(data, "to_arrow"):  # polars and others
            found = data.to_arrow()
            if isinstance(found, pa.Table | pa.RecordBatch):
                return self.batches(found)
        elif type(data).__module__.startswith("pandas") and hasattr(data, "columns"):
            return list(table_of_frame(data).to_batches())
        elif hasattr(data, "__arrow_c_stream__"):
            return list(pa.table(data).to_batches())
        raise self._refused(data)

    def _refused(self, data: Any, why: str = "") -> DataError:
        return DataError(
            f"stream '{self.name}' cannot take a {type(data).__name__}{why}",
            hint="push an Arrow batch or table, a pandas or polars frame, a dict or a list of dicts",
        )

    def _from_rows(self, rows: list[Any]) -> list[pa.RecordBatch]:
        """Rows given as dicts, as one batch. Values of a column may have several types, and are judged one by one."""
        for position, row in enumerate(rows):
            if not isinstance(row, dict):
                raise DataError(f"row {position} pushed to '{self.name}' is a {type(row).__name__}, not a dict")
        names = dict.fromkeys(str(name) for row in rows for name in row)
        time = self.schema.columns[self.time_index].name
        if time.lower() not in {name.lower() for name in names}:
            raise self._missing(time, names)
        self._check_keys(rows, names)
        counts = self.epoch is None or self.epoch == "microseconds"
        arrays = [self._of_rows(rows, column, counts) for column in self.schema]
        return [pa.RecordBatch.from_arrays(arrays, names=list(self.schema.names))]

    def _of_rows(self, rows: list[dict[str, Any]], column: Column, counts: bool) -> pa.Array:
        return fitted(
            [_value(row, column.name) for row in rows], column.type, counts=counts, guards=bool(self._guarded)
        )

    def _check_keys(self, rows: list[dict[str, Any]], names: Iterable[str]) -> None:
        """DataError if a row has a key that looks like a column that it lacks. Other unknown keys and missing columns
        are allowed."""
        unknown = {name for name in names if self.schema.find(name) is None}
        if not unknown:
            return
        looked_at: set[tuple[str, ...]] = set()
        for position, row in enumerate(rows):
            keys = tuple(map(str, row))
            if keys in looked_at or unknown.isdisjoint(keys):
                continue
            looked_at.add(keys)
            found = misspelled(keys, self.schema)
            if found is not None:
                raise DataError(
                    f"stream '{self.name}' has no column '{found[0]}', and row {position} of this push has no "
                    f"'{found[1]}'",
                    hint=f"did you mean {found[1]}? Nothing of this push was taken",
                )

    def _missing(self, name: str, found: Iterable[str]) -> DataError:
        return DataError(f"rows pushed to '{self.name}' have no column '{name}'", hint=did_you_mean(name, found))

    def accepted(
        self, batch: pa.RecordBatch, skip: bool, first: int, limit: WindowLimit, extent: Extent
    ) -> tuple[pa.RecordBatch, Ints, list[tuple[pa.RecordBatch, str]], Extent]:
        """The good rows in the stream's types, their times, the bad rows with their reasons, and the stream's extent
        with the good rows.

        Raises DataError if a row is bad, unless `skip`. `first`: the number of the batch's first row in its push.
        """
        good, bad = self.conformed(batch, skip, first)
        times = self.times(good)
        wrong, extent = self.bad_times(good, times, limit, extent)
        if not wrong:
            return good, times, bad, extent
        if not skip:
            row = min(wrong)
            raise self.refusal(good, row, wrong[row], first)
        good, more = self.without(good, good, wrong)
        return good, self.times(good), bad + more, extent

    def conformed(
        self, batch: pa.RecordBatch, skip: bool, first: int = 0
    ) -> tuple[pa.RecordBatch, list[tuple[pa.RecordBatch, str]]]:
        """The batch in the stream's types without bad rows, and those with their reasons.

        Raises DataError if a row is bad, unless `skip`. `first`: the number of the batch's first row in its push.
        """
        if batch.schema.equals(self.arrow):
            return batch, []
        columns = []
        bad: dict[int, str] = {}
        for column in self.schema:
            source = self._column(batch, column.name)
            target = converted(source, column.type, self.epoch)
            wanted = column.type.to_arrow()
            if target.type != wanted and not (pa.types.is_dictionary(target.type) and target.type.value_type == wanted):
                target, reasons = _one_by_one(source, column.type, self.epoch)
                for row, value in reasons:
                    bad.setdefault(row, f"{column.name} = {value!r} is not {_article(column.type)}")
                    if not skip:
                        raise self.refusal(batch, row, bad[row], first)
            columns.append(target)
        result = pa.RecordBatch.from_arrays(columns, names=list(self.schema.names))
        if not bad:
            return result, []
        return self.without(result, batch, bad)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        index = batch.schema.get_field_index(name)
        if index < 0:
            for i, other in enumerate(batch.schema.names):
                if other.lower() == name.lower():
                    return batch.column(i)
            raise self._missing(name, batch.schema.names)
        return batch.column(index)

    @staticmethod
    def without(
        result: pa.RecordBatch, original: pa.RecordBatch, bad: dict[int, str]
    ) -> tuple[pa.RecordBatch, list[tuple[pa.RecordBatch, str]]]:
        """`result` without the bad rows, and the bad rows of `original`."""
        keep = np.ones(result.num_rows, np.bool_)
        keep[list(bad)] = False
        aside = [(original.slice(row, 1), reason) for row, reason in sorted(bad.items())]
        return result.filter(pa.array(keep)), aside

    def refusal(self, batch: pa.RecordBatch, row: int, reason: str, first: int) -> DataError:
        shown = shown_row(batch.slice(row, 1))
        ways = remedy(self._definition, reason)
        if ways is None or TOO_MANY in reason:
            aside = f"ALTER STREAM {name_to_sql(self.name)} SET (on_bad_row = 'skip') sets such rows aside"
            ways = aside if ways is None else f"{ways}; {aside}"
        if OF_THE_CLOCK in reason:
            ways += f", ahead = '{OFF}' takes rows of any time"
        problem = DataError(
            f"row {first + row} pushed to '{self.name}' is bad: {reason}\nthe row: {shown}",
            hint=f"nothing of this push was taken; {ways}",
        )
        problem.row = first + row
        return problem

    def times(self, batch: pa.RecordBatch) -> Ints:
        """Event times in microseconds; NULL reads as 0, and `bad_times` finds it."""
        return integers(batch.column(self.time_index))

    def bad_times(
        self, batch: pa.RecordBatch, times: Ints, limit: WindowLimit, extent: Extent
    ) -> tuple[dict[int, str], Extent]:
        """The rows with a bad timestamp and their reasons, and the stream's extent with the other rows."""
        if not len(times):
            return {}, extent
        column = batch.column(self.time_index)
        bad: dict[int, str] = {}
        if column.null_count:
            name = self.schema.columns[self.time_index].name
            for row in np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False)).tolist():
                bad[row] = f"{name} is NULL"
        low, high, _ = map(int, survey(times))
        if low < INSTANT_MIN or high > INSTANT_MAX:
            for row in np.flatnonzero((times < INSTANT_MIN) | (times > INSTANT_MAX)).tolist():
                bad[row] = "its timestamp lies outside the years 1 to 9999"
        if high > limit.horizon:
            for row in np.flatnonzero(times > limit.horizon).tolist():
                bad.setdefault(row, limit.reason_of_clock(int(times[row])))
        judged = np.delete(np.arange(len(times)), list(bad)) if bad else None
        too_far, after = limit.judge(times, extent, high) if judged is None else limit.judge(times[judged], extent)
        if too_far is not None:
            found = np.flatnonzero(too_far) if judged is None else judged[too_far]
            bad |= {row: limit.reason(int(times[row]), after) for row in found.tolist()}
        return bad, after

    # -- one row at a time ---------------------------------------------------------------------------------------

    def plain_row(self, row: dict[str, Any]) -> list[Any] | None:
        """The row's values, with timestamps as microseconds, if all have exactly the Python types of their columns.

        None if the row has to be converted and judged the long way.
        """
        values: list[Any] = []
        try:
            for column, accepts in zip(self.schema.columns, self._plain, strict=True):
                value = row[column.name]
                if value is None:
                    values.append(None)
                elif accepts is None or type(value) not in accepts:
                    return None
                else:
                    values.append(value)
        except KeyError:
            return None
        if len(row) != len(values):
            return None
        time = values[self.time_index]
        if time is None:
            return None
        for i, value in enumerate(values):
            if type(value) is datetime:
                if value.tzinfo is None:
                    value = value.replace(tzinfo=EPOCH.tzinfo)
                values[i] = (value - EPOCH) // _MICROSECOND
            elif type(value) is int:
                if not -(2**63) <= value < 2**63:
                    return None
                if MISREAD_LEAST <= value <= MISREAD_MOST and i in self._guarded and are_misread([value]):
                    return None
            elif type(value) is str and not value.isascii() and not is_unicode(value):
                return None
        return values

    def batch_of(self, rows: list[list[Any]]) -> pa.RecordBatch:
        """A batch from rows that `plain_row` accepted."""
        arrays = [
            texts(list(values)) if maker is None else numbers(list(values), maker).cast(field.type)
            for values, field, maker in zip(zip(*rows, strict=True), self.arrow, self._makers, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def shown_row(row: pa.RecordBatch) -> dict[str, Any]:
    """A batch of one row for people to read."""
    return {name: _shown(column[0]) for name, column in zip(row.schema.names, row.columns, strict=True)}


def _shown(value: pa.Scalar) -> Any:
    """The value; as Arrow's text if Python cannot hold it (an instant past 9999, a text that is not UTF-8)."""
    if is_mixed(value.type):
        return None if value.value is None else _shown(value.value)
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        integral = pa.types.is_temporal(value.type) and value.type.bit_width == 64
        return f"{value.type} {value.cast(pa.int64()).as_py() if integral else value}"


def _plain(type_: DataType, epoch: str | None) -> tuple[type, ...] | None:
    """The Python types of values that need no conversion."""
    if type_ == TIMESTAMP and epoch not in (None, "microseconds"):
        return (datetime,)
    return _PLAIN.get(type_.name)


# Types whose exact Python values need no conversion. INT and DECIMAL have limits to check: they go the long way.
_PLAIN: dict[str, tuple[type, ...]] = {
    "BIGINT": (int,),
    "DOUBLE": (float, int),
    "STRING": (str,),
    "BOOLEAN": (bool,),
    "TIMESTAMP": (int, datetime),
}


_MAKERS: dict[str, Any] = {"BIGINT": np.int64, "DOUBLE": np.float64, "BOOLEAN": np.bool_, "TIMESTAMP": np.int64}


def _value(row: dict[str, Any], name: str) -> Any:
    if name in row:
        return row[name]
    for other, value in row.items():
        if str(other).lower() == name.lower():
            return value
    return None


def _one_by_one(source: pa.Array, type_: DataType, epoch: str | None) -> tuple[pa.Array, list[tuple[int, Any]]]:
    """The converted array, with NULL for values that do not convert, and those values with their rows."""
    if not is_mixed(source.type):
        return _by_halves(source, type_, epoch)
    parts: list[pa.Array] = []
    bad: list[tuple[int, Any]] = []
    for part, rows in parts_of(source):
        array, reasons = _by_halves(part, type_, epoch)
        parts.append(array)
        bad.extend((int(rows[row]), value) for row, value in reasons)
    return put_together(source, parts), sorted(bad, key=lambda found: found[0])


def _by_halves(source: pa.Array, type_: DataType, epoch: str | None) -> tuple[pa.Array, list[tuple[int, Any]]]:
    """As `_one_by_one`, for an array whose values all have one type."""
    target = type_.to_arrow()
    pieces: list[pa.Array] = []
    bad: list[tuple[int, Any]] = []

    def convert(start: int, stop: int) -> None:
        part = converted(source.slice(start, stop - start), type_, epoch)
        if part.type == target:
            pieces.append(part)
        elif stop - start == 1:
            bad.append((start, _shown(source[start])))
            pieces.append(pa.nulls(1, target))
        else:
            middle = (start + stop) // 2
            convert(start, middle)
            convert(middle, stop)

    convert(0, len(source))
    return pa.concat_arrays([piece.cast(target) for piece in pieces]), bad


def _article(type_: DataType) -> str:
    return f"an {type_}" if str(type_)[0] in "AEIOU" else f"a {type_}"

"""Casts and timestamps as Spark SQL text, independent of the session's ANSI setting and time zone.

A text becomes a number, date or timestamp only if it follows the grammars of `evaluate_casts.py`. Spark alone would
also read `1d` as a number, and a timestamp without a zone in the session's zone.
"""

from __future__ import annotations

from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DataType
from panewise.temporal import DAY, INSTANT_MAX, INSTANT_MIN

_BLANK = r"[\\x00-\\x20\\x7f]*"
_NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,5})?"
_NUMBER_WORD = "((?i)nan|[+-]?inf|[+-]?infinity)"
# Spark has a year 0; our first year is 1.
_DATE = "(?!0000)[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = "[ T][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}([.][0-9]{1,9})?)?"
_ZONED_TIME = "[ T][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.][0-9]{1,9})?(Z| ?UTC|[+-][0-9]{2}:[0-9]{2})"
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def text_literal(text: str) -> str:
    """A text as a Spark SQL literal, with every character escaped that is not printable ASCII."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(c if " " <= c <= "~" else _escape(c) for c in escaped) + "'"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def naive_timestamp(instant: str) -> str:
    """A TIMESTAMP as TIMESTAMP_NTZ in UTC, to which the session's time zone does not apply."""
    return f"timestampadd(MICROSECOND, unix_micros({instant}), {_EPOCH})"


def date_micros(date: str) -> str:
    """The first microsecond of a DATE."""
    return f"unix_date({date}) * {DAY}L"


def bounded_micros(micros: str) -> str:
    """Microseconds as TIMESTAMP, NULL outside the years 1 to 9999.

    The range is moved to each end of BIGINT and back, so that overflows of try_add and try_subtract do the check. So
    the text of `micros`, which may be long, is needed only once.
    """
    above, below = 2**63 - 1 - INSTANT_MAX, INSTANT_MIN + 2**63
    # Spark's optimizer could regroup two nested try_adds. The try_subtract between them prevents that.
    checked = f"try_subtract(try_add(try_subtract({micros}, 0L), {above}L), {above}L)"
    return f"timestamp_micros(try_add(try_subtract({checked}, {below}L), {below}L))"


def cast_to_spark_sql(operand: str, source: DataType, target: DataType) -> str:
    """CAST(operand AS target) under TRY rules."""
    if source == STRING:
        return _from_text(operand, target)
    if target == STRING:
        return f"try_cast({naive_timestamp(operand) if source == TIMESTAMP else operand} AS STRING)"
    if source == DATE and target == TIMESTAMP:
        return f"timestamp_micros({date_micros(operand)})"
    if source == TIMESTAMP and target == DATE:
        return f"CAST({naive_timestamp(operand)} AS DATE)"
    widening = (source, target) == (INT, BIGINT) or (source.numeric and target in (DOUBLE, FLOAT))
    return f"{'CAST' if widening else 'try_cast'}({operand} AS {_type_text(target)})"


def _type_text(type: DataType) -> str:
    return f"DECIMAL({type.precision},{type.scale})" if type.name == "DECIMAL" else type.name


def _from_text(text: str, target: DataType) -> str:
    if target.integral or target == BOOLEAN:
        return f"try_cast({text} AS {target})"
    if target.fractional:
        pattern = f"^{_BLANK}({_NUMBER}|{_NUMBER_WORD}){_BLANK}$"
        return f"CASE WHEN {text} RLIKE '{pattern}' THEN try_cast({text} AS {target}) END"
    if target.name == "DECIMAL":
        return f"CASE WHEN {text} RLIKE '^{_BLANK}{_NUMBER}{_BLANK}$' THEN try_cast({text} AS {_type_text(target)}) END"
    # Spark ignores every zone when it reads a TIMESTAMP_NTZ, even one that the text names.
    unzoned = f"{text} RLIKE '^{_BLANK}{_DATE}({_TIME})?{_BLANK}$'"
    trimmed = f"regexp_replace({text}, '^{_BLANK}|{_BLANK}$', '')"
    clock = f"try_cast({trimmed} AS TIMESTAMP_NTZ)"
    if target == DATE:
        return f"CASE WHEN {unzoned} THEN CAST({clock} AS DATE) END"
    zoned = f"{text} RLIKE '^{_BLANK}{_DATE}{_ZONED_TIME}{_BLANK}$'"
    in_utc = f"timestamp_micros(timestampdiff(MICROSECOND, {_EPOCH}, {clock}))"
    in_zone = bounded_micros(f"unix_micros(try_cast({trimmed} AS TIMESTAMP))")
    return f"CASE WHEN {unzoned} THEN {in_utc} WHEN {zoned} THEN {in_zone} END"

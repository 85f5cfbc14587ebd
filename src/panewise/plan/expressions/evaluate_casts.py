"""CAST on Arrow arrays under TRY rules: a value that the target type cannot hold becomes NULL.

On both hosts texts follow the grammars below. Spaces and control characters around them are ignored.

    whole number   [+-] digits
    number         [+-] digits [. digits] [e [+-] 1 to 5 digits], or NaN, [+-] inf, [+-] infinity in any case
    date           yyyy-m-d, or a timestamp without a zone
    timestamp      yyyy-m-d [h:m[:s[.f][zone]]] with a space or T between; a zone is Z, UTC or [+-]hh:mm

A conversion to whole numbers cuts fractions; one to DECIMAL rounds them half away from zero. Conversions between text
and floating or DECIMAL numbers work on distinct values in Python. All others are vectorised.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.plan.expressions.evaluate_arithmetic import fitted_decimal
from panewise.plan.expressions.evaluate_dates import bounded_instants
from panewise.plan.expressions.vectors import array_of, by_distinct_value, numbers
from panewise.temporal import DAY, HOUR, MINUTE, SECOND

BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
WHOLE_NUMBER = r"^[+-]?[0-9]+$"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?$"
NUMBER_WORD = r"^(?i)(nan|[+-]?inf|[+-]?infinity)$"
_INSTANT = (
    r"^(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?P<time>[ T](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})"
    r"(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?"
    r"(?P<zone>Z| ?UTC|(?P<sign>[+-])(?P<zone_hour>[0-9]{2}):(?P<zone_minute>[0-9]{2}))?)?)?$"
)
_TRUE_WORDS = ["t", "true", "y", "yes", "1"]
_FALSE_WORDS = ["f", "false", "n", "no", "0"]


def cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array as the target type, with NULL for values that do not fit.

    >>> cast(pa.array(["12", " -3 ", "x"]), pa.int32()).to_pylist()
    [12, -3, None]
    """
    source = array.type
    if source == target:
        return array
    if pa.types.is_string(target):
        return _to_string(array)
    if pa.types.is_string(source):
        return _from_string(array, target)
    if pa.types.is_timestamp(target):
        return array_of(numbers(array).astype(np.int64) * DAY, target, [array])
    if pa.types.is_date(target):
        return array_of(numbers(array) // DAY, target, [array])
    if pa.types.is_boolean(target):
        return pc.not_equal(array, pa.scalar(0).cast(source) if not pa.types.is_decimal(source) else Decimal(0))
    if pa.types.is_boolean(source):
        return cast(array.cast(pa.int32()), target)
    if pa.types.is_decimal(target):
        return _to_decimal(array, target)
    if pa.types.is_decimal(source):
        return _from_decimal(array, target)
    if pa.types.is_integer(target):
        return _to_integer(array, target)
    return array.cast(target, safe=False)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _to_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    values = numbers(array)
    limits = np.iinfo(target.to_pandas_dtype())
    if pa.types.is_integer(array.type):
        outside = (values < limits.min) | (values > limits.max)
        return array_of(values.astype(limits.dtype), target, [array], outside)
    with np.errstate(all="ignore"):
        cut = np.trunc(values.astype(np.float64))
        # The double 2**63 is one more than the greatest BIGINT. Spark converts it to the greatest BIGINT, and so do we.
        outside = ~((cut >= float(limits.min)) & (cut <= float(limits.max)))
        greatest = cut == 2.0**63
        whole = np.where(outside | greatest, 0, cut).astype(np.int64)
    whole[greatest & ~outside] = limits.max
    return array_of(whole, target, [array], outside)


def _to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if pa.types.is_floating(source):
        return (
            by_distinct_value(array.cast(pa.float64()), lambda value: _decimal_text(repr(value), target), target)
            if len(array)
            else pa.array([], target)
        )
    if pa.types.is_integer(source):
        digits = 10 if pa.types.is_int32(source) else 19
        return fitted_decimal(array.cast(pa.decimal128(digits + target.scale, target.scale)), target)
    if target.scale < source.scale:
        wide = array.cast(pa.decimal128(38, source.scale))
        rounded = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
        return fitted_decimal(rounded.cast(pa.decimal128(38, target.scale)), target)
    if source.precision + target.scale - source.scale > 38:
        return by_distinct_value(array, lambda value: _decimal_text(str(value), target), target)
    return fitted_decimal(array.cast(pa.decimal128(38, target.scale)), target)


def _decimal_text(text: str | None, target: pa.DataType) -> Decimal | None:
    """The number in a text, rounded half away from zero to the scale of the target; None if it does not fit."""
    if text is None or text == "None":
        return None
    value = Decimal(text)
    if not value.is_finite() or value.adjusted() > 40:
        return None
    with localcontext() as context:
        context.prec = 200
        if value.adjusted() < -60:
            value = Decimal(0)
        rounded = value.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP)
    return rounded if abs(rounded) < Decimal(10) ** (target.precision - target.scale) else None


def _from_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    scale = array.type.scale
    units = numbers(array)
    if pa.types.is_integer(target):
        quotient = np.abs(units) // 10**scale
        whole = np.where(units < 0, -quotient, quotient)
        limits = np.iinfo(target.to_pandas_dtype())
        return array_of(whole, target, [array], (whole < limits.min) | (whole > limits.max))
    # Up to 2**53 and 10**22 both operands are exact doubles, so the quotient is rounded only once.
    doubles = units / 10.0**scale
    large = np.abs(units) > 2**53
    if large.any():
        distinct, inverse = np.unique(units[large], return_inverse=True)
        exact = [float(Decimal(int(unit)).scaleb(-scale)) for unit in distinct]
        doubles[large] = np.array(exact)[inverse]
    with np.errstate(over="ignore"):
        return array_of(doubles.astype(target.to_pandas_dtype()), target, [array])


# ---- to text ---------------------------------------------------------------------------------------------------------


def _to_string(array: pa.Array) -> pa.Array:
    source = array.type
    if pa.types.is_timestamp(source):
        text = array.view(pa.timestamp("us")).cast(pa.string())
        return pc.utf8_rtrim(pc.utf8_rtrim(text, characters="0"), characters=".")
    if pa.types.is_decimal(source):
        return _decimal_to_string(array)
    if pa.types.is_floating(source):
        return _floating_to_string(array)
    return array.cast(pa.string())


def _floating_to_string(array: pa.Array) -> pa.Array:
    """Texts as Java prints them. Arrow has the same digits; from 0.001 to 10,000,000 only a final .0 is missing."""
    with np.errstate(invalid="ignore"):
        magnitudes = np.abs(numbers(array))
        alike = (magnitudes >= 1e-3) & (magnitudes < 1e7)
    text = array.cast(pa.string())
    text = pc.if_else(pc.match_substring(text, pattern="."), text, pc.binary_join_element_wise(text, ".0", ""))
    if alike.all():
        return text
    single = pa.types.is_float32(array.type)

    def printed(value: float | None) -> str | None:
        return None if value is None else _java_text(value, str(np.float32(value)) if single else repr(value))

    others = by_distinct_value(pc.if_else(pa.array(alike), pa.scalar(None, array.type), array), printed, pa.string())
    return pc.if_else(pa.array(alike), text, others)


def _decimal_to_string(array: pa.Array) -> pa.Array:
    """Plain digits with as many decimals as the scale, without an exponent."""
    units, scale = numbers(array), array.type.scale
    digits = pc.utf8_lpad(array_of(np.abs(units), pa.int64(), [array]).cast(pa.string()), width=scale + 1, padding="0")
    sign = pc.if_else(pa.array(units < 0), "-", "")
    if scale == 0:
        return pc.binary_join_element_wise(sign, digits, "")
    whole = pc.utf8_slice_codeunits(digits, start=0, stop=-scale)
    fraction = pc.utf8_slice_codeunits(digits, start=-scale)
    return pc.binary_join_element_wise(sign, whole, pa.scalar("."), fraction, "")


def _java_text(value: float, shortest: str) -> str:
    """A floating number as Java prints it (0.001, 1.0E7, NaN), made from the shortest digits that identify it."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    minus = "-" if sign else ""
    if value == 0:
        return minus + "0.0"
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent
    # Java prints at least two digits, and chooses the nearest: the least double is 4.9E-324.
    if len(text) == 1 and float(f"{value:.1e}") == value:
        text = f"{abs(value):.1e}".partition("e")[0].replace(".", "").rstrip("0")
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        padded = text.ljust(point, "0")
        return f"{minus}{padded[:point]}.{padded[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


# ---- from text -------------------------------------------------------------------------------------------------------


def _from_string(array: pa.Array, target: pa.DataType) -> pa.Array:
    text = pc.utf8_trim(array, characters=BLANKS)
    if pa.types.is_boolean(target):
        lower = pc.ascii_lower(text)
        true, false = (
            pc.is_in(lower, value_set=pa.array(_TRUE_WORDS)),
            pc.is_in(lower, value_set=pa.array(_FALSE_WORDS)),
        )
        return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))
    if pa.types.is_integer(target):
        return _integer_from_text(text, target)
    if pa.types.is_floating(target):
        return _floating_from_text(text, target)
    if pa.types.is_decimal(target):
        number = _where_matching(text, NUMBER)
        return by_distinct_value(number, lambda value: _decimal_text(value, target), target)
    return _instant_from_text(text, target)


def _where_matching(text: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(text, pattern=pattern), text, pa.scalar(None, pa.string()))


def _integer_from_text(text: pa.Array, target: pa.DataType) -> pa.Array:
    number = pc.utf8_ltrim(_where_matching(text, WHOLE_NUMBER), characters="+")
    try:
        return number.cast(target)
    except pa.ArrowInvalid:
        # A number has too many digits. DECIMAL decides whether it fits.
        significant = pc.replace_substring_regex(number, pattern=r"^(-?)0+([0-9])", replacement=r"\1\2")
        short = pc.less_equal(pc.utf8_length(significant), 20)
        wide = pc.if_else(short, significant, pa.scalar(None, pa.string())).cast(pa.decimal128(38, 0))
        limits = np.iinfo(target.to_pandas_dtype())
        low, high = (pa.scalar(Decimal(int(limit)), pa.decimal128(38, 0)) for limit in (limits.min, limits.max))
        fits = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
        return pc.if_else(fits, wide, pa.scalar(None, wide.type)).cast(target)


def _floating_from_text(text: pa.Array, target: pa.DataType) -> pa.Array:
    number = pc.utf8_ltrim(_where_matching(text, NUMBER), characters="+").cast(target)
    words = _where_matching(text, NUMBER_WORD)
    if words.null_count == len(words):
        return number
    return pc.coalesce(number, by_distinct_value(words, lambda word: None if word is None else float(word), target))


def _instants_without_zone(text: pa.Array) -> pa.Array | None:
    """The timestamps if every text is complete and has no zone, which Arrow parses fast; otherwise None."""
    lengths = pc.binary_length(text).fill_null(10).to_numpy()
    # At other lengths Arrow accepts forms that the grammar does not have.
    if not (np.isin(lengths, (10, 16, 19)) | ((lengths >= 21) & (lengths <= 26))).all():
        return None
    try:
        instants = text.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    return bounded_instants(numbers(instants), pa.timestamp("us", tz="UTC"), [instants])


def _instant_from_text(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Dates and timestamps, made from parts that are checked against the calendar and the clock."""
    quickly = _instants_without_zone(text)
    if quickly is not None:
        return cast(quickly, target)
    parts = pc.extract_regex(text, pattern=_INSTANT)

    def part(name: str) -> Any:
        field = pc.struct_field(parts, name)
        return pc.if_else(pc.equal(field, ""), "0", field).cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)

    year, month, day = part("year"), part("month"), part("day")
    hour, minute, second = part("hour"), part("minute"), part("second")
    null = parts.is_null().to_numpy(zero_copy_only=False).copy()
    null |= (year < 1) | (month < 1) | (month > 12) | (day < 1) | (hour > 23) | (minute > 59) | (second > 59)
    months = np.where(null, 0, (year - 1970) * 12 + month - 1)
    first_day = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    next_first_day = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    days = first_day + day - 1
    null |= days >= next_first_day
    zone = pc.struct_field(parts, "zone").fill_null("")
    zoned = pc.not_equal(zone, "").to_numpy(zero_copy_only=False)
    if pa.types.is_date(target):
        return array_of(days, target, [], null | zoned)
    fraction = pc.utf8_slice_codeunits(
        pc.utf8_rpad(pc.struct_field(parts, "fraction").fill_null(""), width=6, padding="0"), start=0, stop=6
    )
    zone_hour, zone_minute = part("zone_hour"), part("zone_minute")
    null |= (zone_hour * 60 + zone_minute > 18 * 60) | (zone_minute > 59)
    ahead = (zone_hour * HOUR + zone_minute * MINUTE) * np.where(
        pc.equal(pc.struct_field(parts, "sign").fill_null(""), "-").to_numpy(zero_copy_only=False), -1, 1
    )
    microseconds = fraction.cast(pa.int32()).to_numpy().astype(np.int64)
    instants = days * DAY + hour * HOUR + minute * MINUTE + second * SECOND + microseconds - ahead
    return bounded_instants(instants, target, [], null)

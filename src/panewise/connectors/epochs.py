"""What a number in a TIMESTAMP column counts since 1970.

The option `epoch` of a stream says it. Without the option a number of a file or a frame is no instant, and an integer
in a row given as a dict counts microseconds. Seconds and milliseconds of our time, read as microseconds, lie in the
first weeks of 1970: `are_misread` finds those. Times that people make up begin at 0 or the like, or are round numbers,
and are taken.
"""

from __future__ import annotations

from collections.abc import Iterable

# Values of the option `epoch`, with the names of Arrow's units.
EPOCH_UNITS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_PER_SECOND = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_SECONDS_FIRST, _SECONDS_LAST = 1_000_000_000, 4_100_000_000  # 2001 to 2099
# Microseconds that are a multiple of this are made up, where they could also be that unit.
_ROUND = {"seconds": 1_000, "milliseconds": 1_000_000}
MISREAD_LEAST, MISREAD_MOST = _SECONDS_FIRST, _SECONDS_LAST * 1_000


def unit_of(number: float) -> str | None:
    """The unit in which a number is an instant from 2001 to 2099.

    >>> unit_of(1767605400), unit_of(1767605400123), unit_of(17)
    ('seconds', 'milliseconds', None)
    """
    for unit, per_second in _PER_SECOND.items():
        if _SECONDS_FIRST * per_second <= number <= _SECONDS_LAST * per_second:
            return unit
    return None


def are_misread(numbers: Iterable[int]) -> bool:
    """Whether integers that would be read as microseconds count seconds or milliseconds.

    >>> are_misread([1767605400]), are_misread([1_000_000_000]), are_misread([1767605400, 0])
    (True, False, False)
    """
    found = False
    for number in numbers:
        if is_made_up(number):
            return False
        unit = unit_of(number) if MISREAD_LEAST <= number <= MISREAD_MOST else None
        found = found or (unit in _ROUND and number % _ROUND[unit] != 0)
    return found


def is_made_up(number: int) -> bool:
    """Whether microseconds lie before 2001, and where neither seconds nor milliseconds of our time would be."""
    return number < _SECONDS_FIRST * 1_000_000 and unit_of(number) is None


def advice(column: str, shown: str, of: str, *, has_connector: bool) -> str | None:
    """What to write where a number stands in a TIMESTAMP column, as it was shown; None where it is no number.

    `of`: the stream or table that is created, with its kind and as CQL writes it.
    """
    try:
        number = float(shown.strip("'\""))
    except ValueError:
        return None
    unit = unit_of(number)
    looks = f"{shown} looks like {unit} since 1970" if unit else f"{shown} does not say its unit"
    option = f"epoch = '{unit or 'seconds'}'"
    if has_connector:
        return f"{looks}: {option} in WITH of CREATE {of} reads numbers as times"
    pandas_unit = EPOCH_UNITS[unit or "microseconds"]
    return (
        f"{looks}: CREATE {of} (...) WITH ({option}) reads numbers as times, and a frame can say it too: "
        f"pandas.to_datetime(frame['{column}'], unit='{pandas_unit}')"
    )

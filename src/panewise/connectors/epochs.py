"""The unit of numbers in a TIMESTAMP column, which count time since 1970.

The option `epoch` of a stream sets it. Without the option, a number in a file or a frame is not an instant, and an
integer in a row passed as a dict counts microseconds. Present-day times in seconds or milliseconds, misread as
microseconds, lie in the first weeks of 1970; `are_misread` detects them. Made-up times, which begin near 0 or are round
numbers, are accepted.
"""

from __future__ import annotations

from collections.abc import Iterable

# The values of the option `epoch`, with Arrow's names for the units.
EPOCH_UNITS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_PER_SECOND = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_SECONDS_FIRST, _SECONDS_LAST = 1_000_000_000, 4_100_000_000  # 2001 to 2099
# A number that could be in this unit, but is a multiple of this value, counts as made-up microseconds.
_ROUND = {"seconds": 1_000, "milliseconds": 1_000_000}
MISREAD_LEAST, MISREAD_MOST = _SECONDS_FIRST, _SECONDS_LAST * 1_000


def unit_of(number: float) -> str | None:
    """The unit in which a number is an instant from 2001 to 2099, or None.

    >>> unit_of(1767605400), unit_of(1767605400123), unit_of(17)
    ('seconds', 'milliseconds', None)
    """
    for unit, per_second in _PER_SECOND.items():
        if _SECONDS_FIRST * per_second <= number <= _SECONDS_LAST * per_second:
            return unit
    return None


def are_misread(numbers: Iterable[int]) -> bool:
    """Whether integers that would be read as microseconds probably count seconds or milliseconds.

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
    """Whether a number is made-up: before 2001 in microseconds, and outside 2001 to 2099 in every other unit."""
    return number < _SECONDS_FIRST * 1_000_000 and unit_of(number) is None


def advice(column: str, shown: str, of: str, *, has_connector: bool) -> str | None:
    """How to declare the unit of a number found in a TIMESTAMP column, or None if `shown` is not a number.

    `of`: the stream or table, such as "STREAM trades", as CQL writes it.
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

"""The options of streams and sinks: their names, types and defaults.

A connector lists its options as `ConnectorOption` values. `read_options` checks the options of a statement against the
list and returns a value for each. The error for a wrong name suggests the most similar one; the error for a wrong value
says what was expected. Every stream also has the options in STREAM_OPTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from panewise.catalog import Options
from panewise.connectors.epochs import EPOCH_UNITS
from panewise.errors import BindError, ConnectorError, did_you_mean
from panewise.temporal import duration_us, instant_us


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


@dataclass(frozen=True)
class ConnectorOption:
    """A name, a function that reads the value, and the default. REQUIRED: the option must be written."""

    name: str
    read: Callable[[object], object]
    default: object = REQUIRED


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text in quotes")
    return value


def whole_number(least: int = 0) -> Callable[[object], int]:
    """A reader of integers from `least` on."""

    def read(value: object) -> int:
        if isinstance(value, str) and value.strip().lstrip("-").isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"a whole number of at least {least}")
        return value

    return read


def positive_number(value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float | Decimal) and not isinstance(value, bool) else 0.0
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("a number greater than 0")
    return number


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError("TRUE or FALSE")


def duration(value: object) -> int:
    try:
        return duration_us(text(value))
    except (BindError, ValueError):
        raise ValueError("a duration such as '5 seconds'") from None


def instant(value: object) -> int:
    try:
        if isinstance(value, str | datetime):
            return instant_us(value)
        if isinstance(value, date):
            return instant_us(datetime(value.year, value.month, value.day))
    except BindError:
        pass
    raise ValueError("an instant such as '2026-01-31 12:00:00'")


def one_of(*choices: str) -> Callable[[object], str]:
    """A reader of one of a few words, in any case."""

    def read(value: object) -> str:
        if isinstance(value, str) and value.lower() in choices:
            return value.lower()
        raise ValueError(" or ".join(f"'{choice}'" for choice in choices))

    return read


def single_character(value: object) -> str:
    if isinstance(value, str) and value == "\\t":
        return "\t"
    if isinstance(value, str) and len(value) == 1:
        return value
    raise ValueError("a single character (a tab is '\\t')")


def _duration_or_off(value: object) -> object:
    return value if value == "off" else duration(value)


CONNECTOR = ConnectorOption("connector", text, None)
EPOCH = ConnectorOption("epoch", one_of(*EPOCH_UNITS), None)

# The options of every stream, with any connector or none.
STREAM_OPTIONS = (
    CONNECTOR,
    EPOCH,
    ConnectorOption("late", one_of("drop", "keep"), "drop"),
    ConnectorOption("ahead", _duration_or_off, None),
    ConnectorOption("idle", duration, None),
    ConnectorOption("on_bad_row", one_of("fail", "skip"), "fail"),
    ConnectorOption("retain", duration, None),
    ConnectorOption("shedding", one_of("none", "random", "semantic"), None),
    ConnectorOption("max_rate", whole_number(1), None),
    ConnectorOption("keep", text, None),
    ConnectorOption("queue", whole_number(1), None),
)


def read_options(owner: str, written: Options, known: Iterable[ConnectorOption]) -> dict[str, object]:
    """The value of every known option, by name. `owner` names the definition in messages, as in "stream 'trades'"."""
    options: Mapping[str, ConnectorOption] = {option.name: option for option in known}
    values: dict[str, object] = {}
    for name, value in written:
        option = options.get(name.lower())
        if option is None:
            raise ConnectorError(f"{owner} has no option '{name}'", hint=did_you_mean(name, options))
        try:
            values[option.name] = option.read(value)
        except ValueError as expected:
            raise ConnectorError(f"option '{option.name}' of {owner} is {value!r}, expected {expected}") from None
    for option in options.values():
        if option.name in values:
            continue
        if option.default is REQUIRED:
            raise ConnectorError(f"{owner} needs the option '{option.name}'")
        values[option.name] = option.default
    return values


def written_option(written: Options, name: str) -> object:
    """The value of an option as written in the statement, or None."""
    return next((value for key, value in written if key.lower() == name), None)


def epoch_of(written: Options) -> str | None:
    """The unit of numbers in TIMESTAMP columns if the options have `epoch`, else None."""
    found = written_option(written, EPOCH.name)
    return None if found is None else str(found).lower()

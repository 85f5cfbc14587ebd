"""Options of streams and sinks: names, values and defaults."""

from __future__ import annotations

import pytest

from panewise.connectors import options
from panewise.connectors.options import STREAM_OPTIONS, ConnectorOption, read_options
from panewise.errors import ConnectorError

KNOWN = (ConnectorOption("path", options.text), ConnectorOption("rows", options.whole_number(1), 10), *STREAM_OPTIONS)


def test_values_are_read_and_defaults_filled_in() -> None:
    values = read_options("stream 's'", (("PATH", "x"), ("idle", "1 minute")), KNOWN)
    assert values == {
        "path": "x",
        "idle": 60_000_000,
        "rows": 10,
        "connector": None,
        "epoch": None,
        "late": "drop",
        "ahead": None,
        "on_bad_row": "fail",
        "retain": None,
        "shedding": None,
        "max_rate": None,
        "keep": None,
        "queue": None,
    }


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(ConnectorError, match=r"stream 's' has no option 'pathh'\nhint: did you mean path?"):
        read_options("stream 's'", (("pathh", "x"),), KNOWN)


def test_a_missing_option_is_named() -> None:
    with pytest.raises(ConnectorError, match="stream 's' needs the option 'path'"):
        read_options("stream 's'", (), KNOWN)


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (options.text, 3, "a text in quotes"),
        (options.whole_number(1), 0, "a whole number of at least 1"),
        (options.whole_number(0), True, "a whole number of at least 0"),
        (options.positive_number, "-1", "a number greater than 0"),
        (options.positive_number, "many", "a number greater than 0"),
        (options.boolean, "perhaps", "TRUE or FALSE"),
        (options.duration, "5 parsecs", "a duration such as '5 seconds'"),
        (options.instant, "noon", "an instant such as"),
        (options.one_of("drop", "keep"), "lose", "'drop' or 'keep'"),
        (options.single_character, ",,", "a single character"),
    ],
)
def test_a_wrong_value_says_what_was_expected(
    read: options.Callable[[object], object], value: object, expected: str
) -> None:
    with pytest.raises(ConnectorError, match=f"option 'x' of sink 's' is .*, expected {expected}"):
        read_options("sink 's'", (("x", value),), (ConnectorOption("x", read),))


@pytest.mark.parametrize(
    ("read", "value", "result"),
    [
        (options.whole_number(1), "12", 12),
        (options.positive_number, 2, 2.0),
        (options.boolean, "TRUE", True),
        (options.instant, "1970-01-01 00:00:01", 1_000_000),
        (options.one_of("drop", "keep"), "KEEP", "keep"),
        (options.single_character, "\\t", "\t"),
    ],
)
def test_a_right_value(read: options.Callable[[object], object], value: object, result: object) -> None:
    assert read_options("sink 's'", (("x", value),), (ConnectorOption("x", read),)) == {"x": result}

"""Options of WITH and SET: their names, their values, and which definitions have them.

If the option `connector` is given, unknown options belong to the connector and are passed on unchecked.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from panewise.errors import did_you_mean
from panewise.language.bind.archive_layout import LAYOUTS, OWN, parse_layout
from panewise.language.bind.binding import Binding
from panewise.language.expressions import Value
from panewise.language.parse.syntax import OptionNode
from panewise.language.statements import Options
from panewise.temporal import duration_us

_CONNECTED = ("connector", "path")
_OVERLOAD = ("shedding", "max_rate", "keep", "queue")
KNOWN: dict[str, tuple[str, ...]] = {
    "stream": (*_CONNECTED, "epoch", "late", "ahead", "idle", "on_bad_row", "retain", *_OVERLOAD),
    "table": (*_CONNECTED, "changes", "operation"),
    "query": ("mode", "technique", "refresh", "sharing"),
    "sink": _CONNECTED,
    "archive": ("path", "key", "lifetime", "every", "layout", "update"),
}
ALTERABLE: dict[str, tuple[str, ...]] = {
    "stream": ("late", "ahead", "idle", "on_bad_row", "retain", *_OVERLOAD),
    "archive": ("layout", "update"),
}

_CHOICES: dict[str, tuple[str, ...]] = {
    "epoch": ("seconds", "milliseconds", "microseconds", "nanoseconds"),
    "late": ("drop", "keep"),
    "on_bad_row": ("fail", "skip"),
    "mode": ("push", "lookup"),
    "refresh": ("exact", "at_most"),
    "shedding": ("none", "random", "semantic"),
    "update": ("rebuild", "no_rebuild"),
}
_DURATIONS = ("ahead", "idle", "retain", "lifetime", "every")
_NOT_DURATIONS = (("lifetime", OWN), ("ahead", "off"))  # words that are allowed in place of a duration
_TEXTS = ("connector", "path", "technique", "changes", "operation", "keep", "key", "layout")
_COUNTS = ("max_rate", "queue")  # whole numbers of rows, at least one


def bind_options(found: Iterable[OptionNode] | None, kind: str, binding: Binding) -> Options:
    """The checked options of a definition of that kind: names in lower case, in the order given."""
    options = list(found or [])
    named = {_name(option): option for option in options}
    passed = "connector" in named and kind not in ("query", "archive")
    return _checked(options, KNOWN[kind], passed, f"{'an' if kind == 'archive' else 'a'} {kind}", binding)


def bind_alteration(found: Iterable[OptionNode], kind: str, binding: Binding) -> Options:
    """The checked options of ALTER STREAM or ALTER ARCHIVE ... SET."""
    options, alterable = list(found), ALTERABLE[kind]
    # The fixed options of a stream are those of its connector. Of an archive all options are known here.
    fixed = (*_CONNECTED, "epoch") if kind == "stream" else KNOWN[kind]
    for option in options:
        if _name(option) in fixed and _name(option) not in alterable:
            message = f"'{_name(option)}' of {'an' if kind == 'archive' else 'a'} {kind} cannot be altered"
            raise binding.error(message, option, f"drop the {kind} and create it again")
    return _checked(options, alterable, False, f"ALTER {kind.upper()}", binding)


def _checked(options: list[OptionNode], known: tuple[str, ...], passed: bool, where: str, binding: Binding) -> Options:
    checked: dict[str, Value] = {}
    for option in options:
        name = _name(option)
        if name in checked:
            raise binding.error(f"the option '{name}' is given twice", option)
        if name not in known and not passed:
            raise binding.error(f"{where} has no option '{name}'", option.this, did_you_mean(name, known))
        checked[name] = _value(option, name if name in known else None, binding)
    return tuple(checked.items())


def _name(option: OptionNode) -> str:
    name: str = option.this.name
    return name.lower()


def _value(option: OptionNode, known: str | None, binding: Binding) -> Value:
    node = option.expression
    value = _literal(node, binding)
    if known == "epoch" and isinstance(value, str):
        value = value.lower()
    if known in _CHOICES and value not in _CHOICES[known]:
        choices = ", ".join(f"'{choice}'" for choice in _CHOICES[known][:-1]) + f" or '{_CHOICES[known][-1]}'"
        raise binding.error(f"'{known}' takes {choices}", node)
    if known in _DURATIONS and (known, value) not in _NOT_DURATIONS:
        if not isinstance(value, str):
            raise binding.error(f"'{known}' takes a duration in quotes", node, "write '30 seconds', for example")
        with binding.at(node):
            duration_us(value)
    if known in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise binding.error(f"'{known}' takes a number of rows, at least 1", node)
    if known in _TEXTS and not isinstance(value, str):
        raise binding.error(f"'{known}' takes a text in quotes", node)
    if known == "layout" and parse_layout(str(value)) is None:
        raise binding.error(f"'{value}' is not a layout of an archive", node, f"write {LAYOUTS}")
    return value


def _literal(node: exp.Expr, binding: Binding) -> Value:
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    text: str = literal.this
    if literal.is_string:
        return text
    try:
        if text.isdigit() and len(text) > 100:
            raise ValueError(text)
        number: int | float = int(text) if text.isdigit() else float(text)
    except ValueError:
        raise binding.error("this is not a number", node) from None
    return -number if negative else number

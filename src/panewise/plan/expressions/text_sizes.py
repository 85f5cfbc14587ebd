"""Limits the memory of the texts that expressions make.

A few characters of CQL can ask for any number of bytes: `REPLACE(LPAD(s, 10000, 'a'), 'a', LPAD(s, 10000, 'a'))` makes
100 MB from one row. Kernels whose results are longer than their arguments call `about_to_make` first, which raises if
that is too much. A one-time query sets its limit with `limited`; elsewhere the limit is that of one Arrow array.

`cells_of` estimates the memory for each row of an expression, to choose how many rows to compute at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pyarrow as pa

from panewise.errors import DataError
from panewise.language.expressions import Call, Expression, Literal
from panewise.language.functions import PADDED_LENGTH_MAX
from panewise.schema import STRING

ARRAY_BYTES_MAX = 2**31 - 1
CONSTANT_BYTES_MAX = 1 << 20
CELL_BYTES = 8
BY_OPTION_CELLS = 256  # the cost, in cells, of a kernel that is called once for each distinct option

_GROWING = ("lpad", "rpad", "concat", "replace")
_WITH_OPTIONS = (
    "lpad", "rpad", "replace", "substring", "left", "right", "instr", "starts_with", "ends_with", "contains",
)  # fmt: skip

_made: ContextVar[int | None] = ContextVar("made", default=None)  # bytes of texts that the running evaluation has made
_check: ContextVar[Callable[[int], None] | None] = ContextVar("check", default=None)


def about_to_make(size: int) -> None:
    """To be called before texts of `size` bytes are made. Raises if that is too much."""
    check = _check.get()
    if check is not None:
        made = _made.get()
        if made is not None:
            made += size
            _made.set(made)
        check(size if made is None else made)
    if size > ARRAY_BYTES_MAX:
        raise DataError(f"an expression makes texts of more than {ARRAY_BYTES_MAX:,} bytes at once")


def check_constant(size: int) -> None:
    if size > CONSTANT_BYTES_MAX:
        raise DataError(f"a constant expression makes a text of more than {CONSTANT_BYTES_MAX:,} bytes")


@contextmanager
def limited(check: Callable[[int], None]) -> Iterator[None]:
    """Inside, `about_to_make` calls `check` with the bytes that the evaluation of an expression has made so far."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def counted(evaluate: Callable[[pa.RecordBatch], pa.Array], batch: pa.RecordBatch) -> pa.Array:
    """Evaluates an expression and counts the bytes of the texts that it makes."""
    token = _made.set(0)
    try:
        return evaluate(batch)
    finally:
        _made.reset(token)


def makes_texts(expression: Expression) -> bool:
    return any(isinstance(node, Call) and node.function in _GROWING for node in expression.walk())


def cells_of(expressions: Iterable[Expression]) -> int:
    """An estimate of the number of eight-byte values that are computed for each row and held at the same time.

    >>> from panewise.language.expressions import ColumnRef
    >>> text = ColumnRef(STRING, "s")
    >>> cells_of([text]), cells_of([Call(STRING, "concat", (text, Literal(STRING, "x" * 800)))])
    (1, 204)
    """
    return sum(width for expression in expressions for width in _widths(expression).values())


def _widths(expression: Expression) -> dict[int, int]:
    """The width of each node in cells, by its position in `walk`."""
    nodes = list(expression.walk())
    positions = {id(node): position for position, node in enumerate(nodes)}
    widths: dict[int, int] = {}
    for position in range(len(nodes) - 1, -1, -1):  # the children of a node come after it
        node = nodes[position]
        widths[position] = _width(node, [widths[positions[id(child)]] for child in node.children()])
    return widths


def _width(node: Expression, below: list[int]) -> int:
    if isinstance(node, Literal):
        return 1 + _cells(len(node.value)) if isinstance(node.value, str) else 1
    if not isinstance(node, Call):
        return max(below, default=1) if node.type == STRING else 1
    varies = node.function in _WITH_OPTIONS and not all(isinstance(option, Literal) for option in node.arguments[1:])
    extra = BY_OPTION_CELLS if varies else 0
    if node.function in ("lpad", "rpad"):
        return 1 + _cells(_padded_length(node.arguments[1])) + extra
    if node.function == "concat":
        return sum(below) + extra
    if node.function == "replace":
        return below[0] * (1 + below[2]) + extra
    return (max(below, default=1) if node.type == STRING else 1) + extra


def _padded_length(width: Any) -> int:
    said = width.value if isinstance(width, Literal) and isinstance(width.value, int) else PADDED_LENGTH_MAX
    return min(max(said, 0), PADDED_LENGTH_MAX)


def _cells(characters: int) -> int:
    return characters // CELL_BYTES

"""What can go wrong, one class per stage.

A user's mistake raises one of these and changes nothing; a mistake of ours fails an assertion. An error about a
statement carries the place in its text and prints it underlined, with what was expected and what exists.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from panewise.credentials import masked, masked_line


@dataclass(frozen=True)
class Span:
    """A piece of a statement's text: zero-based offsets, `end` exclusive."""

    start: int
    end: int


class PanewiseError(Exception):
    """The base of every error that panewise raises on purpose. Credentials are masked in what it says."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = masked(message)
        self.hint = None if hint is None else masked(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class QueryError(PanewiseError):
    """Something is wrong with a statement. `text` and `span` say where; `line` and `column` count from 1.

    `about`: the word of the statement that the error is about, for errors raised where only the plan is known.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str | None = None,
        span: Span | None = None,
        hint: str | None = None,
        about: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.text = text
        self.span = span
        self.about = about

    def located(self, text: str) -> QueryError:
        """This error, with the statement's text added if it was raised without one."""
        if self.text is None:
            self.text = text
        return self

    @property
    def line(self) -> int | None:
        if self.text is None or self.span is None:
            return None
        return self.text.count("\n", 0, self.span.start) + 1

    @property
    def column(self) -> int | None:
        if self.text is None or self.span is None:
            return None
        return self.span.start - (self.text.rfind("\n", 0, self.span.start) + 1) + 1

    def __str__(self) -> str:
        if self.text is None or self.span is None:
            return super().__str__()
        assert self.line is not None and self.column is not None
        source = masked_line(self.text.split("\n")[self.line - 1])
        width = max(1, min(self.span.end - self.span.start, len(source) - self.column + 1))
        shown, column = _shortened(source, self.column)
        number = str(self.line)
        margin = " " * len(number)
        lines = [
            f"{self.message} (line {self.line}, column {self.column})",
            f" {number} | {shown}",
            f" {margin} | {' ' * (column - 1)}{'^' * min(width, max(1, len(shown) - column + 1))}",
        ]
        if self.hint is not None:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class ParseError(QueryError):
    """The text is not a statement of the language."""


class BindError(QueryError):
    """A name, a type or a window parameter does not fit the catalog."""


class PlanError(QueryError):
    """The statement is valid, but panewise has no operator for it (yet)."""


class CatalogError(PanewiseError):
    """A name is taken, missing or still in use. `missing`: nothing of that name and kind exists."""

    def __init__(self, message: str, *, hint: str | None = None, missing: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


class DataError(PanewiseError):
    """A row or batch does not fit its stream. `row`: the number of the row in its push, from 0, if it is one row."""

    row: int | None = None

    def of_file(self, file: str, rows_before: int = 0) -> DataError:
        """This error for rows of a file, `rows_before` of which came before this push. Rows of a file count from 1."""
        place = f"'{file}'" if self.row is None else f"'{file}', row {rows_before + self.row + 1:,}"
        return DataError(f"{self.message}\nthe file: {place}", hint=self.hint)


class OverloadError(PanewiseError):
    """A push timed out while it waited for room in its stream's queue. None of its rows were taken."""


class QueryFailed(PanewiseError):
    """A running query met data that it cannot answer for, such as an aggregate that raises. It is marked FAILED.

    `results`: an Arrow table of the results up to the failure, if the operator could still compute them.
    """

    results: object | None = None


class NotHeldError(PanewiseError):
    """An answer was requested for an instant or a key that is not held."""


class ReadLimitError(PanewiseError):
    """A one-time query was stopped because it exceeded its engine's limit on rows, bytes or time."""


class ConnectorError(PanewiseError):
    """A source or a sink is misconfigured or cannot be reached."""


class SnapshotError(PanewiseError):
    """A snapshot is damaged or belongs to other statements."""


class DurabilityError(PanewiseError):
    """The folder of a durable engine cannot be written, is in use, or has damage that cannot be ignored."""


class EngineBroken(PanewiseError):
    """An interrupt or an error left the engine in the middle of a change; the hint says what to do."""


class ServerError(PanewiseError):
    """A server could not be reached, refused the request, or failed.

    `status`: the HTTP status of the response, None where there was no response.
    """

    def __init__(self, message: str, *, hint: str | None = None, status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ArchiveError(PanewiseError):
    """An archive cannot be read or written, is damaged, or was given rows that do not fit it."""


class ConnectorWarning(UserWarning):
    """A source is not read, or a sink gets no results, contrary to what a user may expect."""


class DurabilityWarning(UserWarning):
    """A problem with the folder of a durable engine was found and handled."""


class AnswerOverflowWarning(UserWarning):
    """An answer of SUM is NULL because it does not fit BIGINT or DECIMAL (docs/aggregates.md)."""


class LateRowsWarning(UserWarning):
    """Rows arrived later than their stream waits, and were dropped (docs/streams.md)."""


class BadRowsWarning(UserWarning):
    """Bad rows were skipped because their stream has on_bad_row = 'skip' (docs/streams.md)."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names what exists: the most similar names, or a few of all names if none is similar."""
    names = sorted(set(known))
    if not names:
        return "there are none yet"
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(n for n in names if n.lower() in near) + "?"
    shown = ", ".join(names[:8])
    return f"there is {shown}" + (", ..." if len(names) > 8 else "")


def _shortened(line: str, column: int, width: int = 120) -> tuple[str, int]:
    """The part of a long line around the column, and the column's position in that part."""
    if len(line) <= width:
        return line, column
    start = max(0, column - 1 - width // 2)
    prefix = "..." if start else ""
    return prefix + line[start : start + width], column - start + len(prefix)


def raise_interrupt_behind(problem: Exception) -> None:
    """Raises the interrupt that caused this error, if there is one.

    If Ctrl-C arrives while Numba loads a loop, the call ends with a SystemError whose cause is the KeyboardInterrupt.
    """
    cause: BaseException | None = problem
    while isinstance(cause, Exception):
        cause = cause.__cause__
    if cause is not None:
        raise cause from None

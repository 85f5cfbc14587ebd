"""Runs a case on a host, step by step, and says in which line and how an answer differs.

A host is anything with the verbs of `Host`: the engine in this process, the reference, later Spark. A case may be run
in several `manners`, none of which may change any answer: pushes as they stand, pushes cut into single rows, and a
snapshot and restore after every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from tests.case_files import Case, Step, Table, declared_types, matches, rows_of, shown_table

MANNERS = ("batches", "rows", "snapshots")
TIME_COLUMNS = ("window_end", "instant")


class Host(Protocol):
    """What a host of cases does; instants are microseconds, answers are rows as dicts in the order of the columns."""

    name: str
    tells_errors: bool  # whether it refuses wrong statements and says why; if not, its refusals are not read

    def execute(self, text: str) -> list[dict[str, Any]] | None: ...
    def push(self, name: str, rows: list[dict[str, Any]]) -> None: ...
    def advance(self, name: str, until: int) -> None: ...
    def flush(self) -> None: ...
    def results(self, name: str) -> list[dict[str, Any]]: ...
    def lookup(self, name: str, at: int | None) -> list[dict[str, Any]]: ...
    def late_count(self, name: str) -> int: ...
    def late_rows(self, name: str) -> list[dict[str, Any]]: ...
    def bad_count(self, name: str) -> int: ...
    def status(self, name: str) -> str: ...
    def snapshot_and_restore(self) -> None: ...


class Mismatch(AssertionError):
    """A host's answer is not what the case says."""


def run_case(case: Case, host: Host, manner: str = "batches", errors: tuple[type[Exception], ...] = ()) -> None:
    """Runs all steps; `errors` are the exceptions by which the host refuses what it should refuse."""
    types: dict[str, dict[str, str]] = {}
    for step in case.steps:
        run_step(case, step, host, manner, errors, types)
        if manner == "snapshots":
            host.snapshot_and_restore()


def run_step(
    case: Case,
    step: Step,
    host: Host,
    manner: str,
    errors: tuple[type[Exception], ...],
    types: dict[str, dict[str, str]],
) -> None:
    """Runs one step of a case; `types` are those of the streams declared so far, and the step adds its own."""
    types |= declared_types(step.text)
    try:
        _run_step(step, host, manner, errors, types)
    except Mismatch as mismatch:
        raise Mismatch(f"{case.file} line {step.line}, {step.action} {step.subject}: {mismatch}") from None
    except Exception as error:
        error.add_note(f"in {case.file} line {step.line}, {step.action} {step.subject}")
        raise


def _run_step(
    step: Step, host: Host, manner: str, errors: tuple[type[Exception], ...], types: dict[str, dict[str, str]]
) -> None:
    match step.action:
        case "execute":
            answer = host.execute(step.text) if step.text.strip() else None
            if step.table is not None:
                compare(step.table, answer or [], partial=True, by_time=False)
        case "error" if host.tells_errors:
            _refused(lambda: host.execute(step.text), step.fails or "", errors)
        case "push":
            _push(step, host, manner, errors, types)
        case "advance":
            assert step.at is not None
            host.advance(step.subject, step.at)
        case "flush":
            host.flush()
        case "results":
            assert step.table is not None
            compare(step.table, host.results(step.subject), ordered=step.ordered)
        case "lookup" if step.fails is not None:
            _refused(lambda: host.lookup(step.subject, step.at), step.fails if host.tells_errors else "", errors)
        case "lookup":
            assert step.table is not None
            compare(step.table, host.lookup(step.subject, step.at), partial=True, by_time=False)
        case "late":
            _equal("late rows", step.count, host.late_count(step.subject))
        case "late rows":
            assert step.table is not None
            compare(step.table, host.late_rows(step.subject), partial=True, by_time=False)
        case "bad":
            _equal("bad rows", step.count, host.bad_count(step.subject))
        case "status":
            _equal("status", step.text, host.status(step.subject))
        case "snapshot":
            host.snapshot_and_restore()


def _push(
    step: Step, host: Host, manner: str, errors: tuple[type[Exception], ...], types: dict[str, dict[str, str]]
) -> None:
    assert step.table is not None
    rows = rows_of(step.table, types.get(step.subject.lower(), {}))
    if step.fails is not None:
        _refused(lambda: host.push(step.subject, rows), step.fails if host.tells_errors else "", errors)
    elif manner == "rows":
        for row in rows:
            host.push(step.subject, [row])
    else:
        host.push(step.subject, rows)


def _equal(what: str, expected: object, found: object) -> None:
    if expected != found:
        raise Mismatch(f"{what}: expected {expected}, found {found}")


def _refused(attempt: Callable[[], object], text: str, errors: tuple[type[Exception], ...]) -> None:
    try:
        attempt()
    except errors as error:
        if text.lower() not in str(error).lower():
            raise Mismatch(f"expected an error that contains '{text}', found: {error}") from error
    else:
        raise Mismatch(f"expected an error that contains '{text}', and there was none")


def compare(
    expected: Table,
    found: list[dict[str, Any]],
    *,
    ordered: bool = False,
    partial: bool = False,
    by_time: bool = True,
    tolerance: float = 1e-12,
) -> None:
    """Raises Mismatch where the rows differ. `partial` compares only the columns that the header names."""
    header = expected.header
    if found and header and not partial and tuple(found[0]) != header:
        raise Mismatch(f"expected the columns {', '.join(header)}, found {', '.join(found[0])}")
    missing = [name for name in header if found and name not in found[0]]
    if missing:
        raise Mismatch(f"there is no column {', '.join(missing)}: found {', '.join(found[0])}")
    rows = [tuple(row[name] for name in header) for row in found] if header else [tuple(r.values()) for r in found]
    if by_time:
        _in_time_order(found)
    if len(rows) != len(expected.rows) or not _all_match(expected, rows, ordered, by_time, tolerance):
        wanted = "\n".join(" | ".join(row) for row in (header, *expected.rows))
        raise Mismatch(f"expected {len(expected.rows)} rows\n{wanted}\nfound {len(rows)}\n{shown_table(found)}")


def _in_time_order(found: list[dict[str, Any]]) -> None:
    for name in TIME_COLUMNS:
        times = [row[name] for row in found if name in row]
        if times != sorted(times):
            raise Mismatch(f"results are not in the order of {name}\n{shown_table(found)}")


def _all_match(expected: Table, rows: list[tuple[Any, ...]], ordered: bool, by_time: bool, tolerance: float) -> bool:
    """Pairs each expected row with one found row: the next one, or any of the same instant."""
    times = [at for at, name in enumerate(expected.header) if name in TIME_COLUMNS] if by_time else []
    left = list(rows)
    for cells in expected.rows:
        if ordered:
            candidates = left[:1]
        elif times:
            # The results are in time order already, so the candidates are the leading rows of one instant.
            candidates = [row for row in left if row[times[0]] == left[0][times[0]]]
        else:
            candidates = left
        partner = next(
            (row for row in candidates if all(matches(c, v, tolerance) for c, v in zip(cells, row, strict=True))), None
        )
        if partner is None:
            return False
        # By identity: equal rows are interchangeable, but NaN is not equal to itself.
        left.pop(next(at for at, row in enumerate(left) if row is partner))
    return True


def same_rows(
    expected: list[dict[str, Any]],
    found: list[dict[str, Any]],
    *,
    by_time: bool = True,
    tolerance: float = 1e-9,
    smallest: float = 1e-9,
) -> None:
    """Raises Mismatch unless two hosts gave the same rows, in any order within an instant, floats nearly so."""
    if len(expected) == len(found) and (not found or tuple(expected[0]) == tuple(found[0])):
        if by_time:
            _in_time_order(found)
        left = sorted(found, key=_sorting_key)
        right = sorted(expected, key=_sorting_key)
        if all(_same(a, b, tolerance, smallest) for a, b in zip(left, right, strict=True)):
            return
    raise Mismatch(f"expected {len(expected)} rows\n{shown_table(expected)}\nfound {len(found)}\n{shown_table(found)}")


def _sorting_key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Exact columns first, so that floats that differ in their last digits do not change the order."""
    exact = [(value is None, "" if isinstance(value, float) else str(value)) for value in row.values()]
    rough = [value for value in row.values() if isinstance(value, float)]
    return (*exact, *((math.isnan(value), 0.0 if math.isnan(value) else value) for value in rough))


def _same(left: dict[str, Any], right: dict[str, Any], tolerance: float, smallest: float) -> bool:
    for a, b in zip(left.values(), right.values(), strict=True):
        if isinstance(a, float) and isinstance(b, float):
            equal = a == b or (math.isnan(a) and math.isnan(b))
            if not equal and not math.isclose(a, b, rel_tol=tolerance, abs_tol=smallest):
                return False
        elif type(a) is not type(b) or a != b:
            return False
    return True

"""What cannot be planned is refused here, in words, on all hosts and before anything else is done with it.

`check_query` and `check_once` refuse what no operator runs (`plan/supported/supported_plans.py` and its parts) and
options that do not fit the plan. `check_host` refuses what one host lacks and another one has: `LACKS` is the table
of that. What comes too late is refused when it is hosted: only the host knows what rows have gone by
(`engine/hosting/late_queries.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from panewise.catalog import Options
from panewise.errors import PlanError, QueryError
from panewise.language import statements as s
from panewise.language.bind.archive_layout import BY_COST, OWN
from panewise.optimize.refresh_option import check_refresh, is_at_most
from panewise.optimize.technique_option import check_technique
from panewise.plan.blocks import block_of
from panewise.plan.inputs import has_several_inputs, named_answer, windowed_inputs
from panewise.plan.nodes import Emit
from panewise.plan.supported.supported_plans import check_supported
from panewise.temporal import RowsWindow, Window

ROWS_MAX = 10**18  # that a window of rows counts in each of its clauses


class HostKind(Enum):
    """Who is to run what is planned."""

    EMBEDDED = "the embedded engine"
    SPARK = "Spark"


def check_query(plan: Emit, options: Options = (), taken_before: bool = False) -> None:
    """PlanError for a query that runs on and that no operator runs, or whose options do not fit it.

    `taken_before`: it was accepted once, perhaps by a panewise that ignored a mode without meaning.
    """
    check_supported(plan)
    for name, value in options:
        try:
            _check_option(name, value, plan, options, taken_before)
        except QueryError as problem:
            problem.about = problem.about or name
            raise


def _check_option(name: str, value: object, plan: Emit, options: Options, taken_before: bool) -> None:
    """One option of a query, which its plan has to admit."""
    if name == "sharing":
        raise PlanError("the option sharing has no effect yet", hint="leave it out")
    if name == "refresh" and is_at_most(options):
        check_refresh(plan)
    if name == "technique":
        check_technique(str(value), block_of(plan))
    if name == "mode" and value == "lookup" and not taken_before:
        _check_lookup_mode(plan)


def check_once(plan: Emit) -> None:
    """PlanError for a query that is answered once and that no operator answers."""
    if named_answer(plan) is not None:
        return  # an answer is read as it is, whatever a window over the results would say
    check_supported(plan, once=True)
    for node in windowed_inputs(plan):
        check_lengths(node.window)
    if any(isinstance(node.input, Emit) for node in windowed_inputs(plan)):
        raise PlanError("a one-time query over a subquery has no operator yet", hint="create the inner query first")


def check_lengths(window: Window | None) -> None:
    """PlanError for a window of more rows than any stream has: their numbers would leave the range of integers."""
    if not isinstance(window, RowsWindow):
        return
    for clause, rows in (("ROWS", window.rows), ("SLIDE", window.slide or 0), ("OFFSET", window.offset)):
        if rows > ROWS_MAX:
            raise PlanError(
                f"{clause} {rows} of {window} is more than {ROWS_MAX:,} rows, the most that a window counts",
                hint="[UNBOUNDED] holds all rows there ever were",
            )


def check_host(statement: s.Statement, host: HostKind) -> None:
    """PlanError for a statement that asks for what this host lacks."""
    for kind, refuse in LACKS[host]:
        if isinstance(statement, kind):
            refuse(statement)


def _check_lookup_mode(plan: Emit) -> None:
    """A query in that mode reports nothing and holds its answer of the moment; reports are what SLIDE asks for."""
    if plan.periodic:
        raise PlanError(
            "mode = 'lookup' is for a window without SLIDE, and a query with one reports",
            hint="leave out SLIDE, or leave out the mode: lookup finds the last report of any query",
        )
    if has_several_inputs(plan):
        raise PlanError(
            "mode = 'lookup' over several inputs or DISTINCT has no operator yet",
            hint="leave the mode out: lookup finds the answer of any continuous query",
        )


def _refuse_at_most(statement: s.CreateQuery) -> None:
    if is_at_most(statement.options):
        raise PlanError(
            f"refresh = 'at_most' of query '{statement.name}' is for the embedded engine: on Spark every slide is "
            "exact",
            hint="leave it out",
        )


def _refuse_changes(statement: s.CreateTable) -> None:
    if any(name.lower() == "changes" for name, _ in statement.options):
        raise PlanError(
            f"table '{statement.name}' would be changed by a stream, which has no operator on Spark yet",
            hint="change it by statements, or join the stream itself",
        )


def _refuse_own_lifetimes(statement: s.CreateArchive) -> None:
    if dict(statement.options)["lifetime"] == OWN:
        raise PlanError(
            "on Spark results come without the times at which they leave the answer of their query, so lifetime = "
            f"'{OWN}' is for the embedded engine",
            hint="give the archive a lifetime, such as '1 day'",
        )


def _refuse_layout_by_cost(statement: s.AlterArchive) -> None:
    if dict(statement.options).get("layout") == BY_COST:
        raise PlanError(
            "on Spark nobody counts what an archive is asked for, so its layout cannot be chosen by cost",
            hint="name one, such as '4x4'",
        )


Refusal = tuple[type[Any], Callable[[Any], None]]  # a statement, and what is refused of it

LACKS: dict[HostKind, tuple[Refusal, ...]] = {
    HostKind.EMBEDDED: (),
    HostKind.SPARK: (
        (s.CreateQuery, _refuse_at_most),
        (s.CreateTable, _refuse_changes),
        (s.CreateArchive, _refuse_own_lifetimes),
        (s.AlterArchive, _refuse_layout_by_cost),
    ),
}

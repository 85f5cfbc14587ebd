"""Refuses statements that cannot be planned, on all hosts, before anything else is done with them.

`check_query` and `check_once` refuse plans that no operator runs (`plan/supported/supported_plans.py`) and options that
do not fit the plan. `check_host` refuses what one host lacks and another has, as listed in `LACKS`. A query that is
created too late is refused when it is hosted, because only the host knows which rows are gone
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

ROWS_MAX = 10**18  # the largest number in a clause of a window of rows


class HostKind(Enum):
    """The kind of host that is to run a plan."""

    EMBEDDED = "the embedded engine"
    SPARK = "Spark"


def check_query(plan: Emit, options: Options = (), taken_before: bool = False) -> None:
    """PlanError for a registered query that no operator runs, or whose options do not fit it.

    `taken_before`: the query was accepted before, perhaps by a version that ignored a meaningless mode.
    """
    check_supported(plan)
    for name, value in options:
        try:
            _check_option(name, value, plan, options, taken_before)
        except QueryError as problem:
            problem.about = problem.about or name
            raise


def _check_option(name: str, value: object, plan: Emit, options: Options, taken_before: bool) -> None:
    """PlanError if the plan of a query does not allow this option."""
    if name == "sharing":
        raise PlanError("the option sharing has no effect yet", hint="leave it out")
    if name == "refresh" and is_at_most(options):
        check_refresh(plan)
    if name == "technique":
        check_technique(str(value), block_of(plan))
    if name == "mode" and value == "lookup" and not taken_before:
        _check_lookup_mode(plan)


def check_once(plan: Emit) -> None:
    """PlanError for a one-time query that no operator answers."""
    if named_answer(plan) is not None:
        return  # the query reads the answer of another query, not a window over its results
    check_supported(plan, once=True)
    for node in windowed_inputs(plan):
        check_lengths(node.window)
    if any(isinstance(node.input, Emit) for node in windowed_inputs(plan)):
        raise PlanError("a one-time query over a subquery has no operator yet", hint="create the inner query first")


def check_lengths(window: Window | None) -> None:
    """PlanError for a window of more rows than any stream has. Row numbers would overflow int64."""
    if not isinstance(window, RowsWindow):
        return
    for clause, rows in (("ROWS", window.rows), ("SLIDE", window.slide or 0), ("OFFSET", window.offset)):
        if rows > ROWS_MAX:
            raise PlanError(
                f"{clause} {rows} of {window} is more than {ROWS_MAX:,} rows, the most that a window counts",
                hint="use [UNBOUNDED] to keep all rows",
            )


def check_host(statement: s.Statement, host: HostKind) -> None:
    """PlanError for a statement that this kind of host cannot run."""
    for kind, refuse in LACKS[host]:
        if isinstance(statement, kind):
            refuse(statement)


def _check_lookup_mode(plan: Emit) -> None:
    """PlanError if a query cannot have mode = 'lookup', in which it makes no reports and holds its current answer."""
    if plan.periodic:
        raise PlanError(
            "mode = 'lookup' needs a window without SLIDE, because a query with SLIDE makes reports",
            hint="leave out SLIDE, or leave out the mode: lookup finds the last report of every query",
        )
    if has_several_inputs(plan):
        raise PlanError(
            "mode = 'lookup' over several inputs or DISTINCT has no operator yet",
            hint="leave out the mode: lookup finds the answer of every continuous query",
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
            f"table '{statement.name}' cannot be changed by a stream on Spark yet",
            hint="change it by statements, or join the stream itself",
        )


def _refuse_own_lifetimes(statement: s.CreateArchive) -> None:
    if dict(statement.options)["lifetime"] == OWN:
        raise PlanError(
            f"lifetime = '{OWN}' is for the embedded engine: on Spark it is not known when results leave the answer of "
            "their query",
            hint="give the archive a lifetime, such as '1 day'",
        )


def _refuse_layout_by_cost(statement: s.AlterArchive) -> None:
    if dict(statement.options).get("layout") == BY_COST:
        raise PlanError(
            "on Spark the reads of an archive are not counted, so its layout cannot be chosen by cost",
            hint="write a layout such as '4x4'",
        )


Refusal = tuple[type[Any], Callable[[Any], None]]  # a kind of statement, and the check that refuses it

LACKS: dict[HostKind, tuple[Refusal, ...]] = {
    HostKind.EMBEDDED: (),
    HostKind.SPARK: (
        (s.CreateQuery, _refuse_at_most),
        (s.CreateTable, _refuse_changes),
        (s.CreateArchive, _refuse_own_lifetimes),
        (s.AlterArchive, _refuse_layout_by_cost),
    ),
}

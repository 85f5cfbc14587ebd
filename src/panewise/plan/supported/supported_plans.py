"""Refuses valid statements that no operator runs. Each error names what is missing."""

from __future__ import annotations

from importlib.util import find_spec

from panewise.errors import PlanError
from panewise.language.statements import WINDOWLESS
from panewise.language.statements import Emission as Emission
from panewise.plan.blocks import Block, block_of
from panewise.plan.inputs import has_several_inputs, reads_answer
from panewise.plan.nodes import Aggregate, Emit, Filter, Join, Negate, Node, Project, Scan, Union, WindowOf
from panewise.plan.supported.supported_inputs import check_inputs
from panewise.plan.supported.supported_tables import check_tables
from panewise.temporal import RowsWindow, TimeWindow

KEYS_MAX = 62  # the NULLs of a group's keys are bits of one word
JOINED_MAX = 16  # the number of orders that are compared grows with the fifth power of the inputs


def check_supported(plan: Emit, once: bool = False) -> None:
    """Raises PlanError for the first part of the plan that has no operator. `once`: the plan is of a one-time query."""
    for node in plan.walk():
        missing = _unsupported(node)
        if missing is not None:
            raise PlanError(
                f"{missing} has no operator yet",
                hint="the statement is valid, but panewise cannot run it yet",
                about=missing.split()[0],
            )
        if not (once and isinstance(node, WindowOf) and reads_answer(node)):
            _check_windowed(node)
        if once and isinstance(node, WindowOf) and isinstance(node.window, RowsWindow) and node.window.periodic:
            raise PlanError(
                f"{node.window} reports by row numbers, which a one-time query does not know",
                hint="leave out SLIDE to see the last rows, or create the query and look it up",
            )
    for node in plan.walk():
        if isinstance(node, Emit):
            if node.restore and not node.periodic:
                raise PlanError(
                    "RESTORE needs reports, and a window without SLIDE has none",
                    hint="give the window a SLIDE, or leave out RESTORE",
                )
            if node.restore and any(
                isinstance(window, RowsWindow) and window.periodic for window in node.input.windows()
            ):
                raise PlanError(
                    "RESTORE needs reports by time, and a window with ROWS and SLIDE reports by rows",
                    hint="use a window of time, such as [RANGE 1 MINUTE SLIDE 10 SECONDS], or leave out RESTORE",
                )
            check_tables(node, once and node is plan)
            if has_several_inputs(node):
                check_inputs(node, once and node is plan)
            else:
                _check_values_kept(block_of(node), once and node is plan)


def _unsupported(node: Node) -> str | None:
    match node:
        case Join(kinds=kinds) if kinds:
            return f"{next(kind for kind in kinds if kind != 'INNER')} JOIN"
        case Join(inputs=inputs) if len(inputs) > JOINED_MAX:
            return f"a join of {len(inputs)} inputs (at most {JOINED_MAX})"
        case Negate(kind=kind) if kind.startswith("INTERSECT"):
            return kind
        case Aggregate(keys=keys) if len(keys) > KEYS_MAX:
            return f"GROUP BY {len(keys)} columns (at most {KEYS_MAX})"
        case _:
            return None


def _check_windowed(node: Node) -> None:
    """Refuses a stream or a query in parentheses without a window, and a change log with one."""
    if isinstance(node, WindowOf) and _change_log(node.input):
        name = f"query '{node.input.name}'" if isinstance(node.input, Scan) else "the inner query"
        raise PlanError(
            f"a window needs an append-only input, and {name} is a change log",
            hint="write SELECT ISTREAM there, or make its window INTERNAL",
        )
    if isinstance(node, Filter | Project | Aggregate | Join | Negate | Union):
        for source in node.children():
            if isinstance(source, Scan) and source.kind not in WINDOWLESS:
                raise PlanError(
                    f"{source.kind} '{source.name}' is read without a window",
                    hint="write a window after it, such as [RANGE 1 MINUTE SLIDE 10 SECONDS], [NOW] or [UNBOUNDED]",
                    about=source.name,
                )
            if isinstance(source, Emit):
                raise PlanError(
                    "a query in parentheses is read without a window",
                    hint="write a window after the parentheses, such as [RANGE 1 MINUTE SLIDE 10 SECONDS] or [NOW]; if "
                    "the query inside has no SLIDE, it must begin with SELECT ISTREAM",
                )


def _check_values_kept(block: Block, once: bool) -> None:
    """Refuses aggregates that keep values where they cannot be computed slice by slice, or once from the rows."""
    keeping = [a.bound for a in block.aggregate.aggregates if a.bound.holistic] if block.aggregate is not None else []
    if not keeping:
        return
    name, window = keeping[0].text("..."), block.window
    reason = None
    if block.restore:
        reason = "under RESTORE"
    elif isinstance(window, RowsWindow) and window.partition_by:
        reason = "over a window with PARTITION BY"
    elif isinstance(window, TimeWindow) and window.range_us is None:
        reason = "over [UNBOUNDED], which would keep all values,"
    elif not block.periodic:
        reason = "over a window without SLIDE"
    if reason is not None and not once:
        raise PlanError(
            f"{name} {reason} has no operator",
            hint=f"write {name} over [RANGE 1 MINUTE SLIDE 1 SECOND] or the like",
            about="DISTINCT" if "DISTINCT" in name else name.partition("(")[0],
        )
    if any(bound.sketched for bound in keeping) and find_spec("datasketches") is None:
        raise PlanError(
            f"{name} needs the package 'datasketches', which is not installed",
            hint="pip install 'panewise[sketches]'",
        )


def _change_log(node: Node) -> bool:
    if isinstance(node, Emit):
        return node.emission is Emission.CHANGES
    return isinstance(node, Scan) and node.kind == "query" and node.schema.names[:2] == ("instant", "change")

"""Refuses plans over several inputs that no operator runs. Each error says what to write instead."""

from __future__ import annotations

from panewise.errors import PlanError
from panewise.language.expressions import Call, Expression
from panewise.plan.expressions.conjunctions import conjuncts
from panewise.plan.inputs import of_block, source_names, windowed_inputs
from panewise.plan.nodes import Aggregate, Distinct, Emit, Filter, Join, Negate, Node, Project, WindowOf
from panewise.temporal import RowsWindow, TimeWindow


def check_inputs(plan: Emit, once: bool) -> None:
    """Raises PlanError if the plan has no operators. `once`: the plan is of a one-time query."""
    _check_slides(plan)
    if once:  # all rows are there, so nothing has to be kept for later rows
        for node in of_block(plan.input):
            if isinstance(node, Negate) and node.kind.endswith("EXISTS"):
                _check_exists(node.right)
            if isinstance(node, Aggregate) and any(call.bound.name == "FREQUENT" for call in node.aggregates):
                raise PlanError(
                    "FREQUENT counts within the slides of one window, but the query has several inputs",
                    hint="use TOP, which is exact",
                )
        return
    for node in of_block(plan.input):
        match node:
            case Join():
                _check_join(node)
            case Distinct():
                _check_distinct(node)
            case Negate(right=right, kind=kind):
                _check_negation(node)
                if kind.endswith("EXISTS"):
                    _check_exists(right)
            case Aggregate(aggregates=aggregates):
                for aggregated in aggregates:
                    if aggregated.bound.holistic:
                        raise PlanError(
                            f"{aggregated.bound.text('...')} over several inputs has no operator",
                            hint="create a query for the join, and aggregate over its results",
                        )
    _check_internal(plan)


def _check_slides(plan: Emit) -> None:
    """Refuses inputs that do not report together, by time."""
    slides = {}
    for node in windowed_inputs(plan):
        window = node.window
        if isinstance(window, RowsWindow) and window.periodic:
            raise PlanError(
                f"the window {window} of '{node.source}' reports by rows, but the query has other inputs",
                hint="leave out its SLIDE",
            )
        if isinstance(window, TimeWindow) and window.periodic:
            slides[window.slide_us, window.align_us] = node
    if len(slides) > 1:
        first, second, *_ = slides.values()
        raise PlanError(
            f"'{first.source}' reports by {first.window} and '{second.source}' by {second.window}",
            hint="the windows of one query need the same SLIDE and ALIGN",
        )


def _check_internal(plan: Emit) -> None:
    """Refuses INTERNAL windows outside of joins: their results would have to be kept for ever.

    In a join, an INTERNAL window says how long its rows can be joined.
    """
    joined = {id(part) for node in of_block(plan.input) if isinstance(node, Join) for part in node.inputs}
    for node in windowed_inputs(plan):
        if node.window.internal and (isinstance(node.window, RowsWindow) or id(node) not in joined):
            raise PlanError(
                f"the window {node.window} of '{node.source}' cannot be INTERNAL: only a window of time in a join can",
                hint="leave out INTERNAL",
            )
    grouped = any(isinstance(node, Aggregate | Negate) for node in of_block(plan.input))
    if grouped and any(node.window.internal for node in windowed_inputs(plan)):
        raise PlanError(
            "GROUP BY, EXISTS or EXCEPT over INTERNAL windows would keep all results for ever (WSTREAM makes the "
            "windows of a join INTERNAL)",
            hint="leave out INTERNAL, or create a query for the join and put the window on that query",
        )


def _check_join(node: Join) -> None:
    unbounded = [part for part in node.inputs if isinstance(part, WindowOf) and _is_unbounded(part)]
    for part in unbounded[1:]:
        first = unbounded[0].source
        if part.source not in _related_to(first, node.condition):
            raise PlanError(
                f"a cross join of the unbounded inputs '{first}' and '{part.source}' would keep and pair every row for "
                "ever",
                hint="give the windows a RANGE, or relate the inputs by an equality",
            )


def _is_unbounded(node: WindowOf) -> bool:
    return isinstance(node.window, TimeWindow) and node.window.range_us is None


def _related_to(source: str, condition: Expression | None) -> set[str]:
    """The inputs that equalities relate to `source`, directly or through other inputs."""
    equalities = [
        {column.source for column in part.columns() if column.source is not None}
        for part in conjuncts(condition)
        if isinstance(part, Call) and part.function == "eq"
    ]
    found, size = {source}, 0
    while len(found) > size:
        size = len(found)
        found |= {name for sources in equalities if sources & found for name in sources}
    return found


def _check_distinct(node: Distinct) -> None:
    internal = next((window for window in node.windows() if window.internal), None)
    if internal is not None:
        raise PlanError(
            f"DISTINCT over the window {internal} would have to remove results, but INTERNAL makes them append-only",
            hint="leave out INTERNAL, or write SELECT ISTREAM DISTINCT over the window without it",
        )


def _check_negation(node: Negate) -> None:
    if not node.right.windows():
        raise PlanError(
            f"{node.kind} needs a window on its right side: without one, a matching row may still come at any time",
            hint="write a window such as [RANGE 1 MINUTE] after the input",
        )


def _check_exists(right: Node) -> None:
    if not isinstance(right, Project) or isinstance(right.input, Aggregate) or _filters_groups(right.input):
        raise PlanError(
            "EXISTS over GROUP BY, HAVING or DISTINCT has no operator",
            hint="leave them out: EXISTS only asks whether there is a row",
        )
    inner = source_names(right)
    below = right.input
    if isinstance(below, Negate) and _conditions_read(below) - inner:
        raise PlanError(
            "EXISTS inside EXISTS with a condition on the outermost input has no operator",
            hint="create a query for the inner one",
        )
    condition = below.predicate if isinstance(below, Filter) else below.condition if isinstance(below, Join) else None
    for part in conjuncts(condition):
        sources = {column.source for column in part.columns()}
        outside = sources - inner - {None}
        if outside and not _relates_sides(part, inner):
            raise PlanError(
                "EXISTS can relate its two sides only by equalities of one side with the other",
                hint="write conditions such as a.k = b.k; a condition that reads only the inner side may be anything",
            )


def _conditions_read(node: Node) -> set[str]:
    """The inputs that the conditions of a part of a plan read."""
    found = [part.predicate for part in of_block(node) if isinstance(part, Filter)]
    found += [part.condition for part in of_block(node) if isinstance(part, Join) and part.condition is not None]
    return {column.source for condition in found for column in condition.columns() if column.source is not None}


def _filters_groups(node: Node) -> bool:
    return isinstance(node, Filter) and isinstance(node.input, Aggregate)


def _relates_sides(part: Expression, inner: set[str]) -> bool:
    """Whether the condition is `outer = inner`: one side reads only outer inputs, the other only inner ones."""
    if not isinstance(part, Call) or part.function != "eq":
        return False
    within = [{column.source for column in side.columns()} & inner for side in part.arguments]
    beyond = [{column.source for column in side.columns()} - inner for side in part.arguments]
    return (bool(within[0]) and not beyond[0] and not within[1]) or (
        bool(within[1]) and not beyond[1] and not within[0]
    )

"""What plans over several inputs may not do: each refusal in words, with what to write instead."""

from __future__ import annotations

from panewise.errors import PlanError
from panewise.language.expressions import Call, Expression
from panewise.plan.expressions.conjunctions import conjuncts
from panewise.plan.inputs import of_block, source_names, windowed_inputs
from panewise.plan.nodes import Aggregate, Distinct, Emit, Filter, Join, Negate, Node, Project, WindowOf
from panewise.temporal import RowsWindow, TimeWindow


def check_inputs(plan: Emit, once: bool) -> None:
    """Raises PlanError where the plan has no operators; `once`: for a one-time query."""
    _check_slides(plan)
    if once:  # all rows are there: nothing has to be kept for what may come
        for node in of_block(plan.input):
            if isinstance(node, Negate) and node.kind.endswith("EXISTS"):
                _check_exists(node.right)
            if isinstance(node, Aggregate) and any(call.bound.name == "FREQUENT" for call in node.aggregates):
                raise PlanError(
                    "FREQUENT counts within the slides of one window, and here are several inputs",
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
                            hint="make the join a query of its own, and aggregate over that",
                        )
    _check_internal(plan)


def _check_slides(plan: Emit) -> None:
    """All inputs report together, by time."""
    slides = {}
    for node in windowed_inputs(plan):
        window = node.window
        if isinstance(window, RowsWindow) and window.periodic:
            raise PlanError(
                f"the window {window} of '{node.source}' reports by rows, which other inputs know nothing of",
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
    """An INTERNAL window says how long a join finds its rows; anywhere else its rows would have to stay for ever."""
    joined = {id(part) for node in of_block(plan.input) if isinstance(node, Join) for part in node.inputs}
    for node in windowed_inputs(plan):
        if node.window.internal and (isinstance(node.window, RowsWindow) or id(node) not in joined):
            raise PlanError(
                f"the window {node.window} of '{node.source}' is INTERNAL, which only windows of time in a join may be",
                hint="leave out INTERNAL",
            )
    grouped = any(isinstance(node, Aggregate | Negate) for node in of_block(plan.input))
    if grouped and any(node.window.internal for node in windowed_inputs(plan)):
        raise PlanError(
            "GROUP BY, EXISTS or EXCEPT over INTERNAL windows, which WSTREAM makes of windows in a join, would keep "
            "all results for ever",
            hint="leave out INTERNAL, or make the join a query of its own and write its window behind that",
        )


def _check_join(node: Join) -> None:
    unbounded = [part for part in node.inputs if isinstance(part, WindowOf) and _endless(part)]
    for part in unbounded[1:]:
        first = unbounded[0].source
        if part.source not in _related_to(first, node.condition):
            raise PlanError(
                f"a cross join of '{first}' and '{part.source}', which are unbounded, would keep and pair every row "
                "for ever",
                hint="give the windows a RANGE, or relate the inputs by an equality",
            )


def _endless(node: WindowOf) -> bool:
    return isinstance(node.window, TimeWindow) and node.window.range_us is None


def _related_to(source: str, condition: Expression | None) -> set[str]:
    """The inputs that equalities relate to one, also by way of others."""
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
            f"DISTINCT over the window {internal} would have to take back what is append-only",
            hint="leave out INTERNAL, or write SELECT ISTREAM DISTINCT over the window without it",
        )


def _check_negation(node: Negate) -> None:
    if not node.right.windows():
        raise PlanError(
            f"{node.kind} needs a window on its right side: what has not come yet may always come",
            hint="put a window such as [RANGE 1 MINUTE] behind the input",
        )


def _check_exists(right: Node) -> None:
    if not isinstance(right, Project) or isinstance(right.input, Aggregate) or _filters_groups(right.input):
        raise PlanError(
            "EXISTS over GROUP BY, HAVING or DISTINCT has no operator",
            hint="EXISTS asks whether there is a row: leave them out",
        )
    inner = source_names(right)
    below = right.input
    if isinstance(below, Negate) and _conditions_read(below) - inner:
        raise PlanError(
            "EXISTS inside EXISTS, where one of them is about the outermost input, has no operator",
            hint="make the inner one a query of its own",
        )
    condition = below.predicate if isinstance(below, Filter) else below.condition if isinstance(below, Join) else None
    for part in conjuncts(condition):
        sources = {column.source for column in part.columns()}
        outside = sources - inner - {None}
        if outside and not _is_key(part, inner):
            raise PlanError(
                "EXISTS relates its two sides by something else than an equality of one with the other",
                hint="write conditions such as a.k = b.k; conditions on the inner side alone may be anything",
            )


def _conditions_read(node: Node) -> set[str]:
    """The inputs that conditions in a part of a plan read."""
    found = [part.predicate for part in of_block(node) if isinstance(part, Filter)]
    found += [part.condition for part in of_block(node) if isinstance(part, Join) and part.condition is not None]
    return {column.source for condition in found for column in condition.columns() if column.source is not None}


def _filters_groups(node: Node) -> bool:
    return isinstance(node, Filter) and isinstance(node.input, Aggregate)


def _is_key(part: Expression, inner: set[str]) -> bool:
    """`outer = inner`, each side reading one of the two only."""
    if not isinstance(part, Call) or part.function != "eq":
        return False
    within = [{column.source for column in side.columns()} & inner for side in part.arguments]
    beyond = [{column.source for column in side.columns()} - inner for side in part.arguments]
    return (bool(within[0]) and not beyond[0] and not within[1]) or (
        bool(within[1]) and not beyond[1] and not within[0]
    )

"""The longest life of a row of a query's answer, if the end of each row is known when it comes.

A selected row lives as long as it is in its window, a joined row until one of its parts ends, and a row of a union or
DISTINCT as long as the row that it comes from. The ends of all these are known when they come (WEAKEST and WEAK edges).
The rows of a report live until the next report replaces them.

    [RANGE 1 HOUR] JOIN [RANGE 5 MINUTES]           5 minutes: the shortest
    [RANGE 1 HOUR] UNION ALL [RANGE 5 MINUTES]      1 hour: the longest
    [RANGE 1 HOUR SLIDE 1 MINUTE]                   1 minute

There is no such bound if rows of the answer end at unknown times (STRICT) or stay for ever. Golab 2006, sections 3.2
and 4.3, indexes the results of queries with these patterns by expiration.
"""

from __future__ import annotations

from panewise.errors import PlanError
from panewise.language.statements import Emission as Emission
from panewise.plan.inputs import of_block, report_window
from panewise.plan.nodes import Aggregate, Emit, Join, Negate, Node, Pattern, Scan, Union, WindowOf
from panewise.temporal import TimeWindow

_HINT = "give the rows a lifetime, such as lifetime = '1 day'"


def longest_life(query: str, plan: Emit) -> int:
    """The longest life in microseconds; PlanError if rows of the query's answer have no lifetimes of their own."""
    if plan.periodic:
        return _until_next_report(query, plan)
    if plan.emission is Emission.DSTREAM:
        raise PlanError(
            f"results of '{query}' have no lifetimes of their own: DSTREAM reports rows that have ended", hint=_HINT
        )
    if plan.input.pattern is Pattern.STRICT:
        raise PlanError(
            f"results of '{query}' have no lifetimes of their own: {_cause_of_strict(plan.input)} ends rows at times "
            "that are not known when they come",
            hint=_HINT,
        )
    life = _life(plan.input)
    if life is None:
        raise PlanError(f"results of '{query}' have no lifetimes of their own: they live for ever", hint=_HINT)
    return life


def _until_next_report(query: str, plan: Emit) -> int:
    window = report_window(plan)
    if window is None or window.slide_us is None:
        raise PlanError(
            f"results of '{query}' have no lifetimes of their own: a number of rows decides when the next report comes",
            hint=_HINT,
        )
    if plan.emission is not Emission.RSTREAM or plan.restore:
        raise PlanError(
            f"results of '{query}' have no lifetimes of their own: its reports have only what has changed",
            hint=f"{_HINT}, or leave out {'RESTORE' if plan.restore else plan.emission.name}",
        )
    return window.slide_us


def _life(node: Node) -> int | None:
    """The longest life of a row of this node; None if the node itself sets no bound."""
    match node:
        case WindowOf(window=window):
            # Results of a join stay when a row leaves its INTERNAL window. Only joins have such windows.
            return window.range_us if isinstance(window, TimeWindow) and not window.internal else None
        case Scan():
            return None
        case Join(inputs=inputs):
            return min((life for part in inputs if (life := _life(part)) is not None), default=None)
        case Union(left=left, right=right):
            lives = _life(left), _life(right)
            return None if None in lives else max(life for life in lives if life is not None)
        case _:
            (below,) = node.children()
            return _life(below)


def _cause_of_strict(node: Node) -> str:
    """The lowest STRICT node, in words for people."""
    lowest = [part for part in of_block(node) if part.pattern is Pattern.STRICT][-1]
    match lowest:
        case Negate(kind=kind):
            return kind
        case Aggregate():
            return "GROUP BY" if lowest.keys else "an aggregate"
        case WindowOf(input=Emit()):
            return "the change log of the query inside it"
        case WindowOf(window=window):
            return f"the window {window}"
        case Scan(name=name):
            return f"the table '{name}'"
    raise AssertionError(lowest)

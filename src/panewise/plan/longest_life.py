"""How long a row of a query's answer lives at most, where each has an end that is known when it comes.

A selected row lives as long as its window holds it, a pair until the first of its rows goes, a row of a union or of a
DISTINCT as long as the row that it stands for. All of them know their end when they come (WEAKEST and WEAK edges). The
rows of a report live until the next one replaces them.

    [RANGE 1 HOUR] JOIN [RANGE 5 MINUTES]           5 minutes: the shortest
    [RANGE 1 HOUR] UNION ALL [RANGE 5 MINUTES]      1 hour: the longest
    [RANGE 1 HOUR SLIDE 1 MINUTE]                   1 minute

Where the answer takes rows back (STRICT), or keeps them for ever, there is no such bound. Golab 2006, sections 3.2 and
4.3: what is indexed by expiration is the result of queries of these patterns.
"""

from __future__ import annotations

from panewise.errors import PlanError
from panewise.language.statements import Emission as Emission
from panewise.plan.inputs import of_block, report_window
from panewise.plan.nodes import Aggregate, Emit, Join, Negate, Node, Pattern, Scan, Union, WindowOf
from panewise.temporal import TimeWindow

_HINT = "give them one, such as lifetime = '1 day'"


def longest_life(query: str, plan: Emit) -> int:
    """In microseconds; PlanError where rows of the query's answer have no lifetimes of their own."""
    if plan.periodic:
        return _until_next_report(query, plan)
    if plan.emission is Emission.DSTREAM:
        raise PlanError(f"results of '{query}' are what has left it, and have no lifetimes of their own", hint=_HINT)
    if plan.input.pattern is Pattern.STRICT:
        raise PlanError(
            f"results of '{query}' have no lifetimes of their own: {_taking_back(plan.input)} takes rows back at times "
            "that are not known when they come",
            hint=_HINT,
        )
    life = _life(plan.input)
    if life is None:
        raise PlanError(f"results of '{query}' live for ever, and have no lifetimes of their own", hint=_HINT)
    return life


def _until_next_report(query: str, plan: Emit) -> int:
    window = report_window(plan)
    if window is None or window.slide_us is None:
        raise PlanError(
            f"results of '{query}' have no lifetimes of their own: when the next report comes is up to the rows",
            hint=_HINT,
        )
    if plan.emission is not Emission.RSTREAM or plan.restore:
        raise PlanError(
            f"results of '{query}' have no lifetimes of their own: a report says what has changed, not what there is",
            hint=f"{_HINT}, or leave out {'RESTORE' if plan.restore else plan.emission.name}",
        )
    return window.slide_us


def _life(node: Node) -> int | None:
    """None: for ever, or for as long as what it is joined with."""
    match node:
        case WindowOf(window=window):
            # Results stay when the row of an INTERNAL window goes, which only joins have.
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


def _taking_back(node: Node) -> str:
    """What makes the edge STRICT, for people: the lowest node that is."""
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

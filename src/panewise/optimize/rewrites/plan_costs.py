"""The cost of a plan in row touches a second, operator by operator.

A touch is one row put into a state or taken out of it. Rows that column loops only look at cost less: `PASSED` of a
touch if they are tested or handed on, `PROBED` if a probe finds them. Rows are counted when they come (`births`), when
they expire by themselves (in the long run as many as come) and when they end before their time (`ends`). The last only
happens on STRICT edges; this is why other update patterns are cheaper.

    window, selection, items    rows and ends that pass
    join                        probes (`optimize/joins/order_costs.py`), every input row in and out, results; above
                                STRICT edges also the log of results and the results of rows that end
    DISTINCT                    delta-star: births, results in and out; counters, above STRICT edges: rows and results
                                in and out
    negation                    rows of both sides in and out, left rows hidden or shown as the right changes
    GROUP BY                    rows in and out, and every change of a group
    results                     rows in and out

If a value has r * T rows in a window on average, and rows arrive at random, it becomes present r * exp(-r * T) times a
second, and delta-star shows it r / (1 + r * T) times a second. Golab 2006, section 3.5.3, asks for a model of this kind
and gives none; section 5.3 has the joins. Cost: that of the best join orders, about a millisecond for four inputs and
ten for eight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp

from panewise.language.statements import WINDOWLESS
from panewise.language.statements import Emission as Emission
from panewise.optimize.rewrites.edge_estimates import EdgeEstimate, Values, present
from panewise.optimize.rewrites.exists_keys import EXISTS, keys, outer_sources
from panewise.optimize.rewrites.join_estimate import joined
from panewise.optimize.rewrites.statistics import ENDLESS, MATCHED, PASSED, Statistics
from panewise.plan.expressions.conjunctions import conjuncts
from panewise.plan.inputs import joined_as, report_window, source_names
from panewise.plan.nodes import (
    Aggregate,
    Distinct,
    Emit,
    Filter,
    Join,
    Negate,
    Node,
    Pattern,
    Project,
    Scan,
    Union,
    WindowOf,
)
from panewise.temporal import RowsWindow

SECOND = 1_000_000


@dataclass(frozen=True)
class Costed:
    """A node with its costed inputs. `edge`: the estimate of its output. `own`: its cost without its inputs."""

    node: Node
    edge: EdgeEstimate
    own: float
    inputs: tuple[Costed, ...] = ()

    @property
    def total(self) -> float:
        """The cost with everything below, except queries that are read through windows, which run by themselves."""
        below = () if isinstance(self.node, WindowOf) else self.inputs
        return self.own + sum(part.total for part in below)


def costed(node: Node, statistics: Statistics) -> Costed:
    """The costs of a plan or of a part of one."""
    inputs = tuple(costed(child, statistics) for child in node.children())
    edges = [part.edge for part in inputs]
    if isinstance(node, Negate) and node.kind in EXISTS:
        edges[1] = inputs[1].inputs[0].edge  # EXISTS ignores the items of its right side
    edge, own = _estimate(node, edges, statistics)
    return Costed(node, edge, own, inputs)


def _estimate(node: Node, edges: list[EdgeEstimate], statistics: Statistics) -> tuple[EdgeEstimate, float]:
    match node:
        case Scan():
            return _scanned(node, statistics), 0.0
        case WindowOf():
            return _windowed(node, edges[0]), PASSED * edges[0].births
        case Filter(input=below, predicate=predicate):
            known = source_names(below)
            own = [part for part in conjuncts(predicate) if not outer_sources(part, known)]
            return edges[0].selected(own, statistics), (PASSED * _flow(edges[0]) if own else 0.0)
        case Project(items=items):
            columns = {item.name: edges[0].values([item.expression]) for item in items}
            return replace(edges[0], columns=columns), PASSED * _flow(edges[0])
        case Join(inputs=inputs, condition=condition):
            known = source_names(node)
            parts = [part for part in conjuncts(condition) if not outer_sources(part, known)]
            return joined([joined_as(part) for part in inputs], edges, parts, statistics)
        case Distinct(input=below):
            return _distinct(edges[0], below.pattern is Pattern.STRICT)
        case Negate(right=right, kind=kind) if kind in EXISTS:
            return _related(edges[0], edges[1], right, kind)
        case Negate(kind=kind):
            return _subtracted(edges[0], edges[1], kind)
        case Union():
            return _united(edges[0], edges[1]), PASSED * (_flow(edges[0]) + _flow(edges[1]))
        case Aggregate():
            return _grouped(node, edges[0])
        case Emit():
            return _emitted(node, edges[0]), 2 * edges[0].births + edges[0].ends
    raise AssertionError(node)


def _flow(edge: EdgeEstimate) -> float:
    return edge.births + edge.ends


def _scanned(node: Scan, statistics: Statistics) -> EdgeEstimate:
    columns = {
        column.name: Values(statistics.distinct(node.name, column.name), statistics.measured(node.name, column.name))
        for column in node.schema
    }
    if node.kind in WINDOWLESS:
        return EdgeEstimate(0.0, statistics.rows(node.name), 0.0, columns)
    return EdgeEstimate(statistics.rate(node.name), 0.0, 0.0, columns)


def _windowed(node: WindowOf, edge: EdgeEstimate) -> EdgeEstimate:
    window = node.window
    if isinstance(window, RowsWindow):
        parts = 1.0
        for name in window.partition_by:
            parts *= edge.columns[name].count if name in edge.columns else 1.0
        return replace(edge, alive=float(window.rows) * parts, ends=edge.births)
    seconds = ENDLESS if window.range_us is None else window.range_us / SECOND
    return replace(edge, alive=edge.births * seconds)


def _distinct(edge: EdgeEstimate, strict: bool) -> tuple[EdgeEstimate, float]:
    values = 1.0
    for column in edge.columns.values():
        values *= column.count
    share = edge.alive / values
    shown = present(values, edge.alive)
    if strict:
        births = edge.births * exp(-share)
        return replace(edge, births=births, alive=shown, ends=births), 2 * edge.births + 2 * births
    births = edge.births / (1 + share)
    return replace(edge, births=births, alive=shown), edge.births + 2 * births


def _related(left: EdgeEstimate, right: EdgeEstimate, behind: Node, kind: str) -> tuple[EdgeEstimate, float]:
    """[NOT] EXISTS: the left rows whose key the right side has, or has not."""
    related = keys(behind)
    asked, held = left.values(outer for outer, _ in related), right.values(inner for _, inner in related)
    # The probability that the right side can have a key of the left side.
    common = min(1.0, held.count / asked.count) if asked.measured and held.measured else MATCHED
    matched = common * present(held.count, right.alive) / held.count
    moved = left.alive * common * right.births * exp(-right.alive / held.count) / held.count
    share = matched if kind == "EXISTS" else 1 - matched
    edge = left.scaled(share)
    edge = replace(edge, births=edge.births + moved, ends=edge.ends + moved)
    return edge, 2 * (left.births + right.births) + left.ends + right.ends + 2 * moved


def _subtracted(left: EdgeEstimate, right: EdgeEstimate, kind: str) -> tuple[EdgeEstimate, float]:
    """EXCEPT and EXCEPT ALL: the left values that the right side does not have, or has less often."""
    asked, held = _whole(left), _whole(right)
    common = min(1.0, held.count / asked.count) if asked.measured and held.measured else MATCHED
    matched = common * present(held.count, right.alive) / held.count
    touched = 2 * (left.births + right.births) + left.ends + right.ends
    if kind == "EXCEPT ALL":
        moved = common * right.births * min(1.0, left.alive / asked.count)
        edge = left.scaled(1 - matched)
        edge = replace(edge, births=edge.births + moved, ends=edge.ends + moved)
        return edge, touched + 2 * moved
    values = present(asked.count, left.alive)
    moved = values * common * right.births * exp(-right.alive / held.count) / held.count
    births = left.births * exp(-left.alive / asked.count) * (1 - matched) + moved
    return replace(left, births=births, alive=values * (1 - matched), ends=births), touched + 2 * births


def _whole(edge: EdgeEstimate) -> Values:
    count, measured = 1.0, True
    for column in edge.columns.values():
        count, measured = count * column.count, measured and column.measured
    return Values(count, measured)


def _united(left: EdgeEstimate, right: EdgeEstimate) -> EdgeEstimate:
    pairs = zip(left.columns.items(), right.columns.values(), strict=True)
    columns = {
        name: Values(max(first.count, second.count), first.measured and second.measured)
        for (name, first), second in pairs
    }
    return EdgeEstimate(left.births + right.births, left.alive + right.alive, left.ends + right.ends, columns)


def _grouped(node: Aggregate, edge: EdgeEstimate) -> tuple[EdgeEstimate, float]:
    grows = node.input.pattern is Pattern.MONOTONIC
    changes = edge.births if grows else 2 * edge.births
    values = edge.values(node.keys)
    columns = {f"key_{i}": edge.values([key]) for i, key in enumerate(node.keys)}
    return EdgeEstimate(changes, present(values.count, edge.alive), changes, columns), 2 * changes + edge.ends


def _emitted(node: Emit, edge: EdgeEstimate) -> EdgeEstimate:
    """The results as a stream for other queries. A query that reports emits its whole answer at every slide."""
    window = report_window(node)
    if window is None or window.slide_us is None or node.emission is not Emission.RSTREAM:
        return replace(edge, alive=0.0, ends=0.0)
    return replace(edge, births=edge.alive * SECOND / window.slide_us, alive=0.0, ends=0.0)

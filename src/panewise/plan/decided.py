"""The decisions of the planner on a query, as they are stored beside its statement when it is created.

The planner decides by measurements, so it might decide differently later. The layout of a query's state follows from
these decisions. Therefore a restored query is not planned again: the same rewrites are repeated one by one, its joins
begin in the same orders, and it keeps its slide. Decisions that an older panewise did not store are made as it made
them, from assumptions alone.

All fields but `with_past` follow from the query's node (`decided_on`). All are optional when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from panewise.errors import SnapshotError
from panewise.plan.inputs import joined_as
from panewise.plan.nodes import (
    Aggregate,
    Distinct,
    Emit,
    Filter,
    Join,
    Negate,
    Node,
    Project,
    Scan,
    Union,
    WindowOf,
)
from panewise.plan.physical_plan import DeltaQuery, FamilyQuery, Orders, PhysicalQuery, Rewrite, inner_queries


@dataclass(frozen=True)
class Decided:
    """The decisions on one query.

    `slide_us`: the chosen slide, if the query gives only an upper bound. `with_past`: whether the query starts from
    rows that arrived before it was created. `rewrites`: those of a plan over several inputs, in order; None if not
    decided. `gives`: the outline of the rewritten plan. `orders`: the first orders of its joins. `inner`: the decisions
    on the queries in parentheses.
    """

    slide_us: int | None = None
    with_past: bool = False
    rewrites: tuple[Rewrite, ...] | None = None
    gives: str = ""
    orders: tuple[Orders, ...] | None = None
    inner: tuple[Decided, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The stored form; empty if nothing was decided."""
        written: dict[str, Any] = {}
        if self.slide_us is not None:
            written["slide"] = self.slide_us
        if self.with_past:
            written["with_past"] = True
        if self.rewrites is not None:
            written["rewrites"] = [_rewrite_to_dict(rewrite) for rewrite in self.rewrites]
            written["gives"] = self.gives
        if self.orders is not None:
            written["orders"] = [[list(order) for order in orders] for orders in self.orders]
        inner = [one.to_dict() for one in self.inner]
        return written | ({"inner": inner} if any(inner) else {})

    @classmethod
    def of_dict(cls, data: Mapping[str, Any]) -> Decided:
        """The decisions of a stored form; SnapshotError if it is not valid."""
        try:
            rewrites, orders = data.get("rewrites"), data.get("orders")
            return cls(
                data.get("slide"),
                bool(data.get("with_past", False)),
                None if rewrites is None else tuple(map(_rewrite_of_dict, rewrites)),
                str(data.get("gives", "")),
                None if orders is None else tuple(tuple(tuple(map(int, one)) for one in each) for each in orders),
                tuple(map(cls.of_dict, data.get("inner", ()))),
            )
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            raise SnapshotError(
                f"the stored plan of a query is not valid ({problem})",
                hint="if another version of panewise has written it, use that version",
            ) from problem


NOTHING_DECIDED = Decided()


def decided_on(node: PhysicalQuery) -> Decided:
    """The decisions that this node results from."""
    inner = tuple(map(decided_on, inner_queries(node)))
    match node:
        case FamilyQuery():
            return Decided(node.slide_got, node.with_past, inner=inner)
        case DeltaQuery():
            orders = tuple(join.orders for join in node.joins)
            gives = outline(node.plan) if node.rewrites else ""
            return Decided(None, node.with_past, node.rewrites, gives, orders, inner)
    return Decided(inner=inner)


def outline(plan: Node) -> str:
    """The kinds of a plan's nodes and their structure, without details: `emit(project(join(a, b)))`.

    The outline is stored, so its words stay even if classes are renamed.
    """
    match plan:
        case WindowOf():
            return f"window {plan.source}"
        case Scan():
            return f"{plan.kind} {joined_as(plan)}" if plan.alias else plan.kind
        case Negate() | Union():
            return f"{plan.kind.lower()}({_outlines(plan)})"
    return f"{_WORDS[type(plan)]}({_outlines(plan)})"


def _outlines(plan: Node) -> str:
    return ", ".join(map(outline, plan.children()))


_WORDS: dict[type[Node], str] = {
    Emit: "emit",
    Project: "project",
    Filter: "filter",
    Aggregate: "aggregate",
    Join: "join",
    Distinct: "distinct",
}


def _rewrite_to_dict(rewrite: Rewrite) -> dict[str, Any]:
    return {
        "rule": rewrite.name,
        "place": list(rewrite.place),
        "variant": rewrite.variant,
        "before": rewrite.cost_before,
        "after": rewrite.cost_after,
    }


def _rewrite_of_dict(data: Mapping[str, Any]) -> Rewrite:
    costs = float(data["before"]), float(data["after"])
    return Rewrite(str(data["rule"]), *costs, tuple(map(int, data["place"])), int(data["variant"]))

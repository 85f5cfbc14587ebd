"""EXPLAIN of a physical node: its operator, what it shares with other queries, and how its rows may be spread.

What is shared follows from the `PhysicalPlan` that contains the node.
"""

from __future__ import annotations

from panewise.language.sql_text import to_sql
from panewise.optimize.rewrites.explained import explained
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.explanation import Explanation, explain, shared_with
from panewise.plan.physical_plan import (
    DeltaQuery,
    FamilyQuery,
    FamilyShape,
    PhysicalPlan,
    RowQuery,
    core_key,
    family_key,
)


def explained_node(plan: PhysicalPlan, name: str, statistics: Statistics) -> Explanation:
    """How a query of a plan runs, or would run if the plan is not running yet."""
    match plan.queries[name].node:
        case FamilyQuery() as node:
            others = len(plan.families[family_key(name, node)]) - 1
            return explain(node.plan).saying({"tree": shared_with(others), **family_said(node)})
        case RowQuery() as node:
            return explain(node.plan).saying({"operator": node.operator.value})
        case DeltaQuery() as node:
            key = core_key(name, node)
            sharing = 1 if key is None else len(plan.cores[key])
            core = {} if key is None else {"core": shared_with(sharing - 1)}
            return explained(node, statistics, core, node.folds, sharing)


def family_said(node: FamilyQuery) -> dict[str, str]:
    """The properties of a query's family: its shape, how rows may be spread, and the technique if one is asked for."""
    technique = node.shape.technique
    asked = {} if technique is None else {"technique": technique}
    past = {"begins with": "rows of the past, alone"} if node.with_past else {}
    return {"family": _family(node.shape), "spread": node.spread.way.value, **asked, **past}


def _family(shape: FamilyShape) -> str:
    keys = "BY " + ", ".join(map(to_sql, shape.keys)) if shape.keys else ""
    where = "" if shape.where is None else f"WHERE {to_sql(shape.where)}"
    return " ".join(part for part in (keys, where) if part) or "of all rows"

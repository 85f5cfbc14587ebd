"""Plans: what a query computes.

`build` makes the logical plan, whose nodes are in `nodes`; `supported` refuses plans that no operator runs. `blocks`,
`inputs`, `join_layers` and `shared_core` find the parts of a plan that operators run. `physical_plan` says what runs,
with `family_plan`, `placement` and `once`; `decided` is what the planner stores with a query. `expressions` evaluates
and prints scalar expressions, and `explanation` is the text of EXPLAIN.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.plan.build import build as build
    from panewise.plan.nodes import Emit as Emit

__getattr__, __dir__ = face(__name__, {"Emit": "nodes", "build": "build"})

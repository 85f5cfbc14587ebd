"""Plans: what a query computes.

`nodes` are the logical plan, made by `build`; `physical_plan` says what runs, `decided` what the planner has decided
on a query; `expressions` evaluates and prints scalar expressions, `supported` refuses what no operator runs,
`explanation` is the text of EXPLAIN.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.plan.build import build as build
    from panewise.plan.nodes import Emit as Emit

__getattr__, __dir__ = face(__name__, {"Emit": "nodes", "build": "build"})

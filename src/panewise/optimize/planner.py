"""The planner: from all logical plans, and what was measured, to the physical plan. Nothing else chooses what runs.

    running PhysicalPlan + new query + Statistics + Decided  ->  PhysicalPlan;  its difference is what a host applies

A plan that no operator runs has been refused before (`refusals.py`). What is chosen stands in the nodes of the plan,
and what of that would be chosen otherwise another day is written down (`plan/decided.py`): a query that comes back is
planned by what was decided on it, and by what is measured where nothing was. Between two batches families are woven
anew (`sharing/weaver.py`) and joins reordered (`joins/reordering.py`), which are differences of the plan too.

Cost: that of the node, which for several inputs is the search for rewrites; a dict of all queries is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from panewise.catalog import Options
from panewise.optimize.node_of_plan import NOTHING_MEASURED, NOTHING_RUNS, physical
from panewise.optimize.refresh_option import is_at_most, slide_at_most
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.decided import Decided
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import Difference, PhysicalPlan, PhysicalQuery, Planned


@dataclass(frozen=True)
class LogicalQuery:
    """A query as it is to be planned, by its name in lower case."""

    name: str
    plan: Emit
    options: Options = ()


@dataclass(frozen=True)
class Planner:
    """Plans for one host. `sharing`: one of `SHARING`; `statistics`: what is measured now, the rest is assumed.

    >>> from panewise.plan.physical_plan import PhysicalPlan
    >>> Planner().without(PhysicalPlan(), "q") == PhysicalPlan()
    True
    """

    sharing: str = "weave"
    statistics: Statistics = NOTHING_MEASURED

    def planned(self, running: PhysicalPlan, query: LogicalQuery, decided: Decided | None = None) -> PhysicalPlan:
        """What is to run with a new query. `decided`: what was decided on it when it was created; None: it is new.

        SnapshotError where that cannot be carried out any more.
        """
        node = self.node(running, query, decided)
        return running.changed(Difference(coming={query.name: Planned(node)}))

    def without(self, running: PhysicalPlan, name: str) -> PhysicalPlan:
        """What is to run when a query is gone. What was chosen for others stays: their state is held by it."""
        return running.changed(Difference(going=(name,))) if name in running.queries else running

    def node(self, running: PhysicalPlan, query: LogicalQuery, decided: Decided | None = None) -> PhysicalQuery:
        """The node of a query beside those that run."""
        told = decided or Decided()
        if is_at_most(query.options) and told.slide_us is None:
            told = replace(told, slide_us=slide_at_most(query.plan, running))
        # What an older panewise did not write down it has planned one by one, and by assumptions.
        statistics, others = (self.statistics, running) if decided is None else (NOTHING_MEASURED, NOTHING_RUNS)
        return physical(
            query.plan,
            query.options,
            self.sharing,
            query.name,
            statistics=statistics,
            running=others,
            decided=told,
        )

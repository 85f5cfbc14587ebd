"""The planner: makes the physical plan from logical plans and measurements. Nothing else chooses what runs.

    running PhysicalPlan + new query + Statistics + Decided  ->  PhysicalPlan;  its difference is what a host applies

`refusals.py` has already refused plans that no operator runs. Choices are stored in the nodes of the plan. Choices that
depend on measurements are also stored beside the query (`plan/decided.py`): a restored query is planned by its stored
decisions, and by measurements where there are none. Between two batches families may be woven anew
(`sharing/weave/weaver.py`) and joins reordered (`joins/reordering.py`); these are differences of the plan too.

Cost: that of making the node (for several inputs, a search for rewrites), and of copying a dict of all queries.
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
    """A query to be planned. `name` is in lower case."""

    name: str
    plan: Emit
    options: Options = ()


@dataclass(frozen=True)
class Planner:
    """Plans for one host. `sharing`: one of `SHARING`. `statistics`: current measurements; what is missing is assumed.

    >>> from panewise.plan.physical_plan import PhysicalPlan
    >>> Planner().without(PhysicalPlan(), "q") == PhysicalPlan()
    True
    """

    sharing: str = "weave"
    statistics: Statistics = NOTHING_MEASURED

    def planned(self, running: PhysicalPlan, query: LogicalQuery, decided: Decided | None = None) -> PhysicalPlan:
        """The plan with one more query. `decided`: the stored decisions on the query; None if it is new.

        SnapshotError if the decisions can no longer be carried out.
        """
        node = self.node(running, query, decided)
        return running.changed(Difference(coming={query.name: Planned(node)}))

    def without(self, running: PhysicalPlan, name: str) -> PhysicalPlan:
        """The plan without a query. The choices for other queries stay, because their state depends on them."""
        return running.changed(Difference(going=(name,))) if name in running.queries else running

    def node(self, running: PhysicalPlan, query: LogicalQuery, decided: Decided | None = None) -> PhysicalQuery:
        """The node of a query, given the queries that run."""
        decisions = decided or Decided()
        if is_at_most(query.options) and decisions.slide_us is None:
            decisions = replace(decisions, slide_us=slide_at_most(query.plan, running))
        # An older panewise that stored no decisions planned each query alone, from assumptions.
        statistics, others = (self.statistics, running) if decided is None else (NOTHING_MEASURED, NOTHING_RUNS)
        return physical(
            query.plan,
            query.options,
            self.sharing,
            query.name,
            statistics=statistics,
            running=others,
            decided=decisions,
        )

"""Optimize: the one place that chooses what runs.

`planner` makes the physical plan, `rewrites` cheaper plans of the same meaning, `joins` the orders of joins, `sharing`
what families of queries share and by which technique.
"""

"""Optimize: chooses what runs. No other package does.

`planner` makes the physical plan, with the nodes of `node_of_plan`; `refusals` refuses what cannot be planned.
`rewrites` finds cheaper plans with the same meaning, `joins` the orders of joins, and `sharing` what families of
queries share and by which techniques. `placing` chooses the buckets of a host.
"""

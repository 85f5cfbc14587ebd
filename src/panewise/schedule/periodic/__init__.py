"""Which periodic queries run first, and which run together.

`periodic_tasks` turns queries into tasks. `earliest_deadline`, `conservative` and `late_sharing` choose the tasks that
run next; `aggressive` and `hybrid` form tasks that run more often in order to run together, `hybrid` by cost
(`due_share`). `sharing_techniques` lists the combinations.
"""

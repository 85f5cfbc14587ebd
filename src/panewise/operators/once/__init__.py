"""One-time queries: a relation computed once, within a budget.

`one_time` computes the answer of a block over given rows, `partial_relation` the same in parts, and `one_time_plan` the
answer of a plan over several inputs.
"""

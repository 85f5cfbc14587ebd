"""Plans over several inputs: operators whose inputs and outputs are changes of relations.

`plan_builder` makes the operators of a plan, and `delta_plan` runs them. Sources are `windowed_source` and
`table_source`; `beginning` and `series_start` say from when on a plan shows results. `delta_nodes` are the simple
nodes. `distinct`, `negation`, `union` and `grouped_relation` are operators with state, besides the joins in
`operators/joins`. `negation_changes` has the loops of negation, `negation_storage` chooses how its results are kept.
`relation_results` turns the last relation into a stream of results.
"""

"""States without a fixed size over slices.

`bags` has exact counted values, with `distinct_counts` for COUNT DISTINCT; both are kept as `runs` in the arena of
`dyadic_runs` and `dyadic_nodes`. `frequent` keeps the most frequent values of each slice. `sketches` keeps approximate
summaries, of the kinds in `sketch_kinds`.
"""

"""The cost of operations: counted as in the papers, and in nanoseconds measured on this machine.

`weave_costs` has the cost models, on the `operation_counts` of the papers or on the figures of `calibration`, which
`measuring` measures; `shipped` are the figures until then. `held_costs` are those of states without a fixed size.
"""

"""The techniques: structures over slices that answer windows of any length, one per file.

`recompute` is the oracle that all others are tested against. `per_window` is the base of those that keep an instance
per sliding window. `stairs` has its loops in `stairs_loops` and the division of windows into chains in `stair_chains`.
`sparse_two_stacks` is the one for very many groups, with a contract of its own.

Loops take their arrays one by one. Named tuples were measured: they make calls slower, and loops slower or longer to
compile.
"""

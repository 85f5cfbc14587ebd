"""Synopses: structures that answer windows from the partials of closed slices.

`windows` has the techniques, one per file. All follow the contract in `synopsis`, and `techniques` lists them by name.
Most are built on the ring of partials in `slice_ring`. `values` has the synopses of states without a fixed size.
`collective` finds the substreams that satisfy a condition.
"""

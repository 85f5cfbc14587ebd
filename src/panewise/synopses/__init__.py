"""Synopses: structures that answer windows from the partials of closed slices.

`windows` has the techniques, a file each, under the contract in `synopsis`; `techniques` lists them by name. `values`
keeps states without a fixed size, `collective` finds substreams by condition.
"""

"""Slicing: where the edges of windows lie, and which slice a row falls into.

`pairs`, `panes` and `cutty` are three ways to find the edges; `pairs` is the one in use. `window_set` maintains the
edges of a changing set of windows. `open_slices` finds the slice and slot of each row, with the loops of `slot_loops`.
"""

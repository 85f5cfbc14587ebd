"""Operators: Arrow batches in, results out, restarted from a snapshot; they do not know who hosts them.

`family` has periodic aggregates, `shared_fold` folds rows once for several families, `continuous` has windows without
SLIDE, `row_windows` windows of rows, `deltas` plans over several inputs, `joins` the window join, `shared_core` joins
and DISTINCT that several queries share, `once` one-time queries, `held` rows and values that operators hold.
"""

"""Joins and DISTINCT that queries with different windows share, and aggregates over them.

`core_operator` is the contract, which `join_core` and `distinct_core` fulfil. `shared_join` runs one join for the
longest windows and narrows its results to those of each query. `join_aggregates` folds them for queries that report
aggregates, over the slices of `join_slices`; `join_reports` says when these report. `shared_distinct` keeps one table
of values for all windows. `join_slice_loops` and `shared_distinct_loops` are the compiled loops.
"""

"""Continuous windows, without SLIDE: their relation changes with every row and every expiration.

    continuous.py           the operators: aggregates, and rows without aggregates
    group_windows.py        the rows in the windows of all groups, and their states at every change
    row_states.py           the state of each held row; window_folds.py has the compiled loops that fold them
    collective_lookup.py    lookups with HAVING over very many groups, by an index

The operators fulfil `RowOperator`; `row_windows` uses the states and loops too.
"""

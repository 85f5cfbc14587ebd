"""Count windows with SLIDE, and time windows with SLIDE without aggregates.

    row_window.py          [RANGE r SLIDE s] without aggregates
    counted_reports.py     [ROWS n SLIDE m] without aggregates, and the reports that are due
    partitioned_rows.py    [PARTITION BY c ROWS n SLIDE m] with aggregates

All of them fulfil `RowOperator`.
"""

"""Rows and values that operators hold. Nothing here knows queries or windows of time.

    held_values.py       the values of open slices, for states without a fixed size
    listed_values.py     these values as lists in a batch of partials
    closed_values.py     the values of closed slices: exact bags, top-k lists, sketches
    held_batches.py      whole rows by slot, appended and read at random
    stored_columns.py    columns that grow and are read at any places

`HeldValues` owns the structures of `closed_values.py`; the other modules stand alone.
"""

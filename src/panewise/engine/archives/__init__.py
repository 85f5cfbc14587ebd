"""Archives while the engine runs: they keep rows of a stream or query, and know its past.

`archive_keeper.py` brings the rows of a channel into the files of an archive, and `archive_own_lifetimes.py` the answer
of a query. `archived_past.py` finds the past rows of a channel there. `past_rows.py` finds them there or in the
channel, and `archive_history.py` says with which of them a new query begins.
"""

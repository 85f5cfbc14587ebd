"""Durability: an engine with a path writes every change to a log before it acknowledges it.

`durability.py` writes the records and decides when a snapshot replaces the log. `durable_folder.py` is the folder of
snapshots and logs, `durable_log.py` one log, and `durable_note.py` says how much of it was acknowledged.
`durable_sync.py` brings the log to the disk. `suspended_folder.py` opens a folder of which nothing runs.
"""

"""State that operators keep between batches, and how it is written to disk.

`group_table` gives keys small integers, `key_hash` hashes them the same everywhere. `expiring` is the contract of
expiration queues: `fifo_queue` and `calendar_queue`. `snapshot_format` turns snapshots into bytes, and `records` names
their fields. `durable_files` has the file operations, and `forked` closes files in forked children.
"""

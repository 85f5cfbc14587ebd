"""Schedules: when periodic queries are computed, and how reads and window moves interleave.

`periodic` orders the tasks of periodic queries, `isolation` the reads and moves of a window.
"""

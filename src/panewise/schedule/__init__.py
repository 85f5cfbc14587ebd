"""Schedules: which periodic queries run next, and how reads and window moves interleave.

`periodic` orders the tasks of periodic queries, `isolation` the reads and moves of a window. Both are decisions only,
without data.
"""

"""Schedules: when periodic queries are computed, and how reads and window moves interleave."""

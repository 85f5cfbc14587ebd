"""Consumers: they take rows from channels, run operators on them, and answer queries.

`query_consumer.py` is their contract. `family_consumer.py` answers many queries from shared slices. All others answer
one query each (`one_query.py`): by an operator, by a plan, or by a plan over a shared core. These take the rows that
wait at `ports.py` in steps of bounded size. `report_schedule.py` decides which reports wait while a stream is behind.
"""

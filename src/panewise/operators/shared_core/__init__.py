"""Joins and DISTINCT that queries with different windows share, and aggregates over them."""

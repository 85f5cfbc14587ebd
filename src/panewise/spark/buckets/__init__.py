"""Buckets: the operators of a fragment for one part of the groups, and their state in Spark's store."""

"""Operators: rows in, results out, restartable from a snapshot; they do not know who hosts them."""

"""Collective indices: which of very many substreams satisfy a condition on an aggregate of a window."""

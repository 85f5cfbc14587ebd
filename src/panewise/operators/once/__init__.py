"""One-time queries: a relation computed once, within a budget."""

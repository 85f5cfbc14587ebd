"""The log of results, the statistics beside it, and their readers."""

"""The log of results, and who reads it."""

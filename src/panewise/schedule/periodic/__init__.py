"""Which periodic queries run first, and which run together."""

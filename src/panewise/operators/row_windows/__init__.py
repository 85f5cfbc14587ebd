"""Windows of rows, and periodic queries without aggregates."""

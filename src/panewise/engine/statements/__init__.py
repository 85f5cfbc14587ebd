"""What statements do to an engine, and what SHOW and EXPLAIN say of it."""

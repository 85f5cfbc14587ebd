"""Results of queries, numbered, in memory and in files."""

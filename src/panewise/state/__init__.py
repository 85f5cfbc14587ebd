"""State that operators keep between batches."""

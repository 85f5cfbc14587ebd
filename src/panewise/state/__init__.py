"""State that operators keep between batches, and how it is written down."""

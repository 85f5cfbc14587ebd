"""What archives know of the past of a stream or query, while the engine runs."""

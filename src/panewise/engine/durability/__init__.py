"""What an engine with a path writes down before it acknowledges anything."""

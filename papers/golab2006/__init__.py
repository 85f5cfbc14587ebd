"""Golab 2006, the dissertation, by chapter, and what only its experiments compare panewise with."""

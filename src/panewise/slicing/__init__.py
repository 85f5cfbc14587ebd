"""Slicing: where the edges of windows lie, and which slice a row falls into."""

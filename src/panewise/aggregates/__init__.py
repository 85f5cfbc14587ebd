"""Aggregates: lift, combine, lower and inverse, the algebra of each, and the registry of their names."""

"""Optimize: what plans have in common, and what it costs to compute it once. It knows no operators and no runtime."""

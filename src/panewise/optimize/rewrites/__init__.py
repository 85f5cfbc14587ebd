"""Rewrites: plans that mean the same at every instant and cost less, by the estimate of `plan_costs.py`."""

"""Joins: what an order of probing several windows costs, the best order for each origin of a new row, table sizes."""

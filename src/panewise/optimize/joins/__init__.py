"""Orders of joins: what an order of probing costs, the best order for each origin of a row, and when to change it.

`join_graph` has inputs and predicates, `order_costs` the cost of an order. `ordering` finds the best orders, by `exact`
search or by `heuristics`. `drift` compares the orders in use with them, and `reordering` decides when to change.
"""

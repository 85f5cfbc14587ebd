"""Orders of joins: what an order of probing costs, the best order for each origin of a row, and when to change it."""

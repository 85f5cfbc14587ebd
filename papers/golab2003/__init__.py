"""Golab and Özsu 2003: multi-way joins of windows, their costs, their strategies and the orders of their loops."""

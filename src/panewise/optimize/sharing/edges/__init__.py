"""How many edges a set of windows has per unit of time, by several methods."""

"""Plans: typed statements as immutable nodes, with update patterns, and scalar expressions evaluated or printed."""

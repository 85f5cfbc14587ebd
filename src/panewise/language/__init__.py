"""CQL: SQL with windows, parsed and printed by sqlglot, bound to the catalog as typed statements."""

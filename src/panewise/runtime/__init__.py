"""Hosts of operators: the embedded engine now, Spark beside it later."""

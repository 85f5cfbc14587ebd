"""The faces that people use: the command line with its shell and its demonstration."""

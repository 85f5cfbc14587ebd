"""The program: versions of the definitions, the change that leads to each, and the fragments that answer queries."""

"""The program: versions of the definitions, the changes that lead to them, and the fragments that answer queries."""

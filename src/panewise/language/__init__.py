"""CQL: SQL with windows.

`parse` makes a syntax tree of a text, `bind` makes typed statements of the tree, with every name found and every type
known. `statements` and `expressions` are what comes out, `functions` the scalar functions.
"""

"""CQL: SQL with windows.

`parse` turns a text into syntax trees. `bind` turns a tree into a typed statement: every name is found and every type
is known. `statements` and `expressions` define the result. `functions` lists the scalar functions, `number_functions`
types those on numbers, `conversions` converts between types, and `sql_text` prints typed expressions as SQL.
"""

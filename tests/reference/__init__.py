"""The slow and obvious meaning of a query, written once more and without any code of panewise.

Every answer is recomputed from all rows that ever arrived, straight from the definitions of what a query means, so that
the engine and the cases have something independent to be compared with. Nothing here is clever or fast on purpose: a
report costs O(rows), a query O(rows x reports).

- `tokens`, `row_expressions` and `cql` read the part of the language that cases and property tests use;
- `scalars` evaluates row expressions, `folds` evaluates aggregates over lists;
- `relations` turns rows, a window and a watermark into result rows;
- `host` keeps streams and queries and speaks the same few verbs as every other host of cases.
"""

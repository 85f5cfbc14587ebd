"""The routes, one module for each group: statements, queries, streams, operations, the dashboard.

`openapi` describes them, `serving` is the server state that they share.
"""

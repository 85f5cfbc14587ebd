"""Admits or refuses requests before a route handles them.

`guard` applies `access` (tokens, scopes, origins) and `limits` (rates and sizes); `header_limits` bounds heads of
requests, `parameters` refuses unknown parameters, `connector_rules` restricts what statements may name. `quick_lookups`
answers the most frequent request without a route. `remarks` warns about open file permissions.
"""

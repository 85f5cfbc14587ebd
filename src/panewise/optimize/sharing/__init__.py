"""Sharing: which queries may share partials, and into which trees a family is divided.

`rules` says which queries may share. `edges` counts the edges of windows, `costs` prices operations, `weave` divides
families into trees, `selections` finds what selections and groupings have in common, and `report` describes the result.
"""

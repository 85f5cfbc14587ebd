"""Sharing: which queries may share partials, and into which trees a family is divided.

`edges` counts the edges of windows, `costs` prices operations, `weave` divides families into trees, `selections` says
what selections and groupings have in common, `report` tells what sharing did.
"""

"""Sharing: which queries may share partials, how many edges and operations a tree of them has, and the best trees."""

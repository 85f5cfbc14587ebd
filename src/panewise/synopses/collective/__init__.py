"""Collective indices: they find which of very many substreams satisfy a condition on an aggregate of a window.

`collective_count` and `collective_sum` share `collective_index`, with the loops in `collective_levels`; they may return
candidates that `substream_running`, with exact answers per substream, has to check. `collective_extreme` finds maxima
and minima exactly, with the tree in `interval_treaps`.
"""

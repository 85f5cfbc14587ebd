"""The number of edges that a set of windows has per unit of time.

`edge_counts` chooses a method: `bit_set`, `f1` or `residues`, which falls back on the estimate of `sampled`. All count
a union of `residue_classes`.
"""

"""Rewrites: cheaper plans with the same meaning at every instant.

`rewriting` applies the rules, each of which is a file named by a verb. `plan_costs` says what a plan costs, from the
`edge_estimates` of its edges, `join_estimate` and `statistics`. `exists_keys` and `renamed_columns` are what rules need
to know of expressions, and `explained` prints costs for EXPLAIN.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.optimize.rewrites.rewriting import rewrite as rewrite

__getattr__, __dir__ = face(__name__, {"rewrite": "rewriting"})

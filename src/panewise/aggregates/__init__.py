"""Aggregates: the states that are kept of rows, and the answers computed from them.

`aggregate_functions` has the SQL functions and the states they need; `builtin` finds them by name. `states` has the
kinds of mergeable states, `algebra` their properties, `kernels` the compiled loops over states, `matrix` arrays of
states of one kind. `holistic` has aggregates whose state has no fixed size, `user` aggregates written in Python.
`lowering` computes SQL values from states, `decoding` Arrow columns from these values.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.aggregates.aggregate_functions import AggregateFunction as AggregateFunction

__getattr__, __dir__ = face(__name__, {"AggregateFunction": "aggregate_functions"})

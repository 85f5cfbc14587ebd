"""Aggregates: what is kept of rows, and what is answered from it.

`aggregate_functions` are the functions of SQL and the states behind them, `states` the mergeable states, `kernels`
their compiled loops, `matrix` many states of one kind, `holistic` states without a fixed size, `user` aggregates
written in Python, `lowering` the way from states to SQL values.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.aggregates.aggregate_functions import AggregateFunction as AggregateFunction

__getattr__, __dir__ = face(__name__, {"AggregateFunction": "aggregate_functions"})

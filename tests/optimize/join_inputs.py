"""Random inputs of joins, and how joins are evaluated: what tests of orders and of table sizes draw from."""

from __future__ import annotations

from hypothesis import strategies as st

from panewise.optimize.joins.join_graph import JoinInput
from panewise.optimize.joins.order_costs import EAGER, Evaluation

INPUTS = st.builds(
    JoinInput,
    st.sampled_from([0.1, 1.0, 3.0, 50.0]),
    st.integers(1, 2000).map(float),
    st.integers(1, 300).map(float),
    st.sampled_from([None, 1.0, 4.0, 30.0]),
)
EVALUATIONS = st.sampled_from([EAGER, Evaluation(5, 5), Evaluation(40, 40), Evaluation(10, 0, True)])

"""A multiset of windows has the edges of its windows, however they came and went."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from panewise.slicing.pairs import Cadence, edge_classes
from panewise.slicing.window_set import WindowSet

windows = st.builds(Cadence, st.none() | st.integers(1, 12), st.integers(1, 12), st.integers(0, 5), st.integers(0, 5))


@given(st.lists(st.tuples(st.booleans(), windows), max_size=30))
def test_edges_follow_what_comes_and_goes(steps: list[tuple[bool, Cadence]]) -> None:
    held: list[Cadence] = []
    found = WindowSet()
    for comes, window in steps:
        before = [part.tolist() for part in edge_classes(held)]
        if comes or not held:
            held.append(window)
            fresh = found.add(window)
            assert fresh == ([part.tolist() for part in edge_classes(held)] != before)
        else:
            gone = held.pop(len(held) // 2)
            found.remove(gone)
        assert [part.tolist() for part in found.edges] == [part.tolist() for part in edge_classes(held)]
        assert found.endless == any(window.range is None for window in held)
        assert found.shortest_slide == min((window.slide for window in held), default=None)
        assert set(found) == set(held) and len(found) == len(set(held))

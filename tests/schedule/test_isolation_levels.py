"""Histories have the levels that Golab 2006 says, and three independent ways to judge a history agree."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from panewise.errors import PanewiseError
from panewise.schedule.isolation.histories import History, HistoryOperation, OperationKind
from panewise.schedule.isolation.levels import Isolation, Level, has_level, isolation, window_level
from panewise.schedule.isolation.serialization_graph import Why, serialization_graph
from panewise.schedule.isolation.views import replay
from papers.golab2006.serial_orders import is_window_serializable_by_orders, serial_orders
from tests.now_or_soak import examples

# Sections 7.3.1, 7.4.2 and 7.6: what the text says of each, and which commits order it keeps.
OF_THE_THESIS = {
    # "an old copy of s0 and a new copy of s1, which does not correspond to a window state at any point in time"
    "Ha": ("rQ1[0] w5[0] c5 w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1", Level.SERIALIZABLE, False),
    # "the state of the window after T4 commits"
    "Hb": ("rQ1[0] w5[0] c5 rQ1[1] w6[1] c6 rQ1[2] rQ1[3] rQ1[4] cQ1", Level.WINDOW, False),
    # "the state of the window after T5 commits"
    "Hc": ("w5[0] c5 rQ1[0] rQ1[1] rQ1[2] rQ1[3] w6[1] c6 rQ1[4] cQ1", Level.WINDOW, False),
    # "only Hd ensures that TQ1 reads the most up-to-date state"; "both CPS and WS (or LWS)"
    "Hd": ("w5[0] c5 rQ1[0] w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1", Level.LATEST_WINDOW, True),
    # the order of algorithm 8
    "He": ("rQ1[4] w5[0] c5 rQ1[0] rQ1[3] rQ1[2] w6[1] c6 rQ1[1] cQ1", Level.LATEST_WINDOW, True),
    # "latest-window serializability would have been violated immediately after T5 has committed"
    "Hf": ("rQ1[0] w5[0] c5 rQ1[1] rQ1[2] rQ1[3] w6[1] c6 rQ1[4] cQ1", Level.WINDOW, False),
    # "is CPS, but neither WS nor LWS"
    "Hg": ("rQ1[0] w5[0] w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1 c5", Level.SERIALIZABLE, True),
    # "is WS and LWS, but not CPS"
    "Hh": ("rQ1[0] rQ1[1] rQ1[2] rQ1[3] w9[4] rQ1[4] cQ1 c9", Level.LATEST_WINDOW, False),
}


def of_the_thesis(name: str) -> History:
    return History.parse(OF_THE_THESIS[name][0], sub_windows=5, filled=9 if name == "Hh" else 5)


@pytest.mark.parametrize("name", OF_THE_THESIS)
def test_a_history_of_the_thesis_has_its_level(name: str) -> None:
    _, level, commit_order = OF_THE_THESIS[name]
    history = of_the_thesis(name)
    assert isolation(history) == Isolation(level, commit_order)
    assert judged_by_graph(history) == judged_by_orders(history) == level
    assert str(history) == OF_THE_THESIS[name][0]


def test_the_graphs_of_figure_7_4() -> None:
    def edges(name: str) -> set[tuple[int | str, int | str]]:
        graph = serialization_graph(of_the_thesis(name))
        return {(edge.before, edge.after) for edge in graph.conflicts() if "Q1" in (edge.before, edge.after)} - {
            (copy, "Q1") for copy in range(5)
        }

    assert edges("Ha") == {(6, "Q1"), ("Q1", 5)}
    assert edges("Hb") == {("Q1", 5), ("Q1", 6)}
    assert edges("Hc") == {(5, "Q1"), ("Q1", 6)}
    assert edges("Hd") == {(5, "Q1"), (6, "Q1")}
    assert list(serial_orders(of_the_thesis("Ha"))) == [(6, "Q1", 5)]


def test_one_after_another_is_serial() -> None:
    history = History.parse("rQ1[0] rQ1[1] cQ1 w2[0] c2 rQ2[1] rQ2[0] cQ2", sub_windows=2)
    assert isolation(history) == Isolation(Level.SERIAL, True)
    # An aborted read does not count.
    history = History.parse("rQ1[0] w2[0] c2 aQ1 rQ2[1] rQ2[0] cQ2", sub_windows=2)
    assert isolation(history) == Isolation(Level.SERIAL, True)


def test_what_is_not_serializable() -> None:
    # Q1 puts move 2 before move 3, Q2 the other way round: only both together are impossible.
    text = "rQ1[0] rQ2[1] w2[0] c2 w3[1] c3 rQ1[1] rQ2[0] cQ1 cQ2"
    assert isolation(History.parse(text, sub_windows=2)) == Isolation(Level.NONE, False)
    assert not list(serial_orders(History.parse(text, sub_windows=2)))


def test_a_short_window_may_be_torn_without_a_conflict() -> None:
    # Copies 3 and 5 are no window of two, yet no sub-window was written after it was read.
    torn = History.parse("rQ[3] w5[0] c5 rQ[0] cQ", sub_windows=5, lengths={"Q": 2})
    assert isolation(torn) == Isolation(Level.SERIALIZABLE, commit_order_preserving=True)
    assert {edge.why for edge in serialization_graph(torn).edges if edge.before == "Q"} == {Why.EXPIRED}
    # So theorem 7.5 is about whole windows: this one keeps the order of commits and is stale.
    stale = History.parse("rQ[3] w5[0] c5 rQ[4] cQ", sub_windows=5, lengths={"Q": 2})
    assert isolation(stale) == Isolation(Level.WINDOW, commit_order_preserving=True)


def test_a_read_of_too_few_sub_windows_saw_no_window() -> None:
    assert isolation(History.parse("rQ[1] cQ", sub_windows=2)).level is Level.SERIALIZABLE
    assert judged_by_graph(History.parse("rQ[1] cQ", sub_windows=2)) is Level.SERIALIZABLE


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("w3[1] c3", "expected w2"), ("w2[1] c2", "expected w2"), ("w2[0]", "do not commit"), ("c2", "not running"),
        ("rQ[0] rQ[0]", "already read"), ("uQ[0]", "has not read"), ("cQ rQ[0]", "has ended"), ("rQ[2]", "0 to 1"),
        ("cQ[1]", "no sub-window"), ("wQ[0]", "cannot write"), ("r2[0]", "can only write"), ("x", "not an operation"),
        ("w2[0] w3[1] i2[1] c2 c3", "begun since"),
    ],
)  # fmt: skip
def test_what_is_no_history_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(PanewiseError, match=wrong):
        History.parse(text, sub_windows=2)


# -- three judges of random histories ----------------------------------------------------------------------------------


def judged_by_graph(history: History) -> Level:
    graph = serialization_graph(history)
    if graph.is_latest_window_serializable():
        return Level.LATEST_WINDOW
    return Level.WINDOW if graph.is_window_serializable() else Level.SERIALIZABLE


def judged_by_orders(history: History) -> Level:
    if is_window_serializable_by_orders(history, latest=True):
        return Level.LATEST_WINDOW
    return Level.WINDOW if is_window_serializable_by_orders(history, latest=False) else Level.SERIALIZABLE


@st.composite
def histories(draw: st.DrawFn, *, weak: bool = False, short: bool = True, at_once: bool = False) -> History:
    """Reads of any sub-windows in any order among moves; `weak` moves insert, `at_once` moves commit at once."""
    sub_windows = draw(st.integers(2, 4))
    names = ["P", "Q"][: draw(st.integers(1, 2))]
    lengths = {name: draw(st.integers(1, sub_windows)) if short else sub_windows for name in names}
    pending = {name: draw(st.permutations(range(sub_windows)))[: lengths[name]] for name in names}
    operations: list[HistoryOperation] = []
    seen: dict[str, list[int]] = {name: [] for name in names}
    next_move, uncommitted = sub_windows, list[int]()
    moves_left = draw(st.integers(0, 3))
    while pending:
        what = draw(st.sampled_from([*pending, *pending, "move", "commit"]))
        if what == "move" and moves_left:
            moves_left -= 1
            operations.append(HistoryOperation(OperationKind.WRITE, next_move, next_move % sub_windows))
            uncommitted.append(next_move)
            for place in draw(st.sets(st.integers(0, sub_windows - 1))) if weak else ():
                operations.append(HistoryOperation(OperationKind.INSERT, next_move, place))
                operations += [
                    HistoryOperation(OperationKind.FORWARD, name, place)
                    for name in pending
                    if place in seen[name] and draw(st.booleans())
                ]
            next_move += 1
        if (what == "commit" or at_once) and uncommitted:
            moved = uncommitted.pop(draw(st.integers(0, len(uncommitted) - 1)))
            operations.append(HistoryOperation(OperationKind.COMMIT, moved))
        if what in pending:
            if pending[what]:
                seen[what].append(pending[what].pop())
                operations.append(HistoryOperation(OperationKind.READ, what, seen[what][-1]))
            else:
                del pending[what]
                operations.append(HistoryOperation(OperationKind.COMMIT, what))
    operations += [HistoryOperation(OperationKind.COMMIT, moved) for moved in uncommitted]
    return History(tuple(operations), sub_windows, lengths)


@examples(150, soak=300)
@given(histories())
def test_definitions_theorems_and_orders_agree(history: History) -> None:
    assert judged_by_graph(history) == window_level(history)
    assert all(has_level(history, level) == (isolation(history).level >= level) for level in Level)
    assert (isolation(history).level > Level.NONE) == any(True for _ in serial_orders(history))
    # An order of the history's own transactions cannot show a window from before it began.
    assume(all(read.youngest >= history.filled - 1 for read in replay(history).reads))
    assert judged_by_orders(history) == window_level(history)


@examples(100, soak=200)
@given(histories(weak=True, short=False))
def test_they_agree_where_moves_insert_into_other_sub_windows(history: History) -> None:
    assert judged_by_graph(history) == window_level(history) == judged_by_orders(history)
    assert (isolation(history).level > Level.NONE) == any(True for _ in serial_orders(history))


@examples(100, soak=200)
@given(histories(short=False, at_once=True))
def test_theorem_7_5(history: History) -> None:
    found = isolation(history)
    assert (found.level >= Level.LATEST_WINDOW) == found.commit_order_preserving


@examples(50, soak=100)
@given(histories(weak=True))
def test_a_history_is_its_text(history: History) -> None:
    assert History.parse(str(history), sub_windows=history.sub_windows, lengths=history.lengths) == history

"""Costs: the papers' equations by hand, our counted operations against them, and the model of measured time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from panewise.aggregates.states import COUNT, MAXIMUM, MOMENTS, SUM_FLOAT, SUM_INTEGER, Feed, StateKind
from panewise.optimize.sharing.costs.operation_counts import OPERATIONS, harmonic
from panewise.optimize.sharing.costs.weave_costs import (
    WORK,
    CalibratedModel,
    Curve,
    Figures,
    OperationModel,
    operations_per_edge,
    state_of,
    window_sums,
    work,
)
from panewise.synopses.counting import count_operations_of, operations
from panewise.synopses.techniques import TECHNIQUES
from tests.now_or_soak import soaking

NO_INTS = np.empty(0, np.int64)


# -- Omega, by hand ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("technique", "lengths", "omega"),
    [
        ("panes", [5, 7], 12.0),  # equation 3
        ("materialize_none", [5, 7], 12.0),
        ("flat_fat", [1], 0.0),  # equation 4, where the printed one has a logarithm of 0
        ("flat_fat", [2], 0 + 1 / 2),
        ("flat_fat", [5], 2 + 4 / 4),
        ("flat_fat", [8], 2 + 7 / 8),
        ("flat_fat", [9], 3 + 8 / 8),
        ("flat_fat", [5, 8, 1], 3 + 2.875),
        ("flat_fit", [10, 20, 30], 9.0),  # equation 5
        ("slick_deque_inv", [10, 20, 20.2, 30], 6.0),  # equation 6: 20 and 20.2 slices are one running value
        ("slick_deque", [1], 2 - 2 + 1 + 1),  # equation 7
        ("slick_deque", [2, 4], 2 - 2 / 4 + 2 + (1 + 1 / 2 + 1 / 3 + 1 / 4)),
        ("r_int", [10, 20], 3.0),
        ("l_int", [5, 7, 60], 3 * 2 + 3),  # widths 4 to 7 and 32 to 63
        ("b_int", [8, 1], 1 + 3),
        ("psoup", [8, 4], 3 + 5),
        ("two_stacks", [10, 20], 6.0),
        ("daba", [10, 20], 8.0),
        ("subtract_on_evict", [10, 20], 4.0),
    ],
)
def test_equations(technique: str, lengths: list[float], omega: float) -> None:
    assert operations_per_edge(technique, lengths, np.ones(len(lengths))) == pytest.approx(omega)


def test_the_mean_deque_is_the_harmonic_sum() -> None:
    """7.5 at 1,000 slices; the printed sum of 1/i! would be 1.72."""
    assert harmonic(1000) == pytest.approx(sum(1 / i for i in range(1, 1001)))
    assert operations_per_edge("slick_deque", [1000], [1]) == pytest.approx(2 - 0.002 + 1 + 7.485, abs=0.001)


@given(st.integers(1, 400))
def test_harmonic(number: int) -> None:
    assert harmonic(number) == pytest.approx(sum(1 / i for i in range(1, number + 1)), rel=1e-9)
    assert harmonic(number) < harmonic(number + 0.5) < harmonic(number + 1)


def test_queries_that_are_answered_apart() -> None:
    assert operations_per_edge("panes", [5, 7], [2, 1]) == 17
    assert operations_per_edge("flat_fit", [5, 7], [2, 1]) == 9
    assert operations_per_edge("slick_deque_inv", [5, 7], [2, 1]) == 4


def test_every_technique_has_an_omega() -> None:
    assert OPERATIONS.keys() == TECHNIQUES.keys()
    assert operations_per_edge("panes", [], []) == 0
    with pytest.raises(ValueError, match="no technique 'pans'"):
        operations_per_edge("pans", [1], [1])


# -- Omega, against what our structures do -----------------------------------------------------------------------------


def counted(technique: str, kind: StateKind, lengths: list[int]) -> float:
    """Operations per slide of one slice, where all windows are answered, over two turns of the longest."""
    synopsis = TECHNIQUES[technique].made(kind, 1)
    longest, windows = max(lengths), np.arange(len(lengths))
    slides, spans = 2 * longest, np.array(sorted(lengths))
    random = np.random.default_rng(3)
    ints = random.integers(0, 1000, (kind.int_fields, longest + slides + 1))
    floats = random.random((kind.float_fields, longest + slides + 1))

    def slide(rooms: NDArray[np.int64]) -> None:
        synopsis.insert_from(ints, floats, rooms, NO_INTS)
        synopsis.answer(synopsis.after - spans, np.full(len(spans), synopsis.after), NO_INTS, None, windows)
        synopsis.evict(synopsis.after - longest)

    slide(np.arange(longest + 1))
    count_operations_of(synopsis)  # type: ignore[arg-type]
    for place in range(longest + 1, longest + 1 + slides):
        slide(np.array([place]))
    return operations(synopsis) / slides  # type: ignore[arg-type]


# Between which parts of Omega the counted operations lie. Structures that build a window on the next shorter one do
# less with many ranges; a FlatFAT of one window also covers it, where the paper takes the root.
FACTORS = {
    "panes": (0.9, 1.0),
    "subtract_on_evict": (1.0, 1.0),
    "slick_deque_inv": (1.0, 1.0),
    "two_stacks": (0.8, 1.05),
    "l_int": (0.8, 1.05),
    "flat_fit": (0.3, 1.05),
    "b_int": (0.5, 1.1),
    "flat_fat": (0.7, 2.4),
}


LENGTHS = [[16], [300], [3, 50, 200], list(range(10, 200, 10))]


@pytest.mark.parametrize("technique", FACTORS)
@pytest.mark.parametrize("lengths", soaking(LENGTHS, now=[[16], [3, 50, 200]]), ids=len)
def test_counted_operations(technique: str, lengths: list[int]) -> None:
    omega = operations_per_edge(technique, lengths, np.ones(len(lengths)))
    least, most = FACTORS[technique]
    assert least * omega <= counted(technique, COUNT, lengths) <= most * omega


@pytest.mark.parametrize("lengths", [[16], [3, 50, 200]], ids=len)
def test_counted_operations_of_the_deque(lengths: list[int]) -> None:
    """Ours finds winners without comparing states, so that only the part of equation 7 for new slices is left."""
    entering = (
        operations_per_edge("slick_deque", lengths, np.ones(len(lengths))) - len(lengths) - harmonic(max(lengths))
    )
    assert counted("slick_deque", MAXIMUM[Feed.FLOAT], lengths) == pytest.approx(entering, rel=0.1)


# -- plans in operations -----------------------------------------------------------------------------------------------


def test_plans_in_operations() -> None:
    """Windows (6, 2) and (8, 4) of the paper's example 2, at 10 rows a unit: edges at every even point."""
    model = OperationModel()
    together = model.tree("flat_fit", 1 / 2, [6, 8], [2, 4], [1, 1])
    assert together == pytest.approx(0.5 * 6)
    apart = [model.tree("flat_fit", 1 / 2, [6], [2], [1]), model.tree("flat_fit", 1 / 4, [8], [4], [1])]
    assert apart == pytest.approx([1.5, 0.75])
    assert model.weave_share(10, [together]) == pytest.approx(10 + 3)
    assert model.weave_share(10, apart) == pytest.approx(2 * 10 + 2.25)
    assert model.tri_weave(10, 1 / 2, apart) == pytest.approx(10 + 2 * 0.5 + 2.25)
    assert model.tri_weave(10, 1 / 2, [together]) == pytest.approx(10 + 0.5 + 3)


def test_lengths_are_in_slices_of_the_tree() -> None:
    model = OperationModel()
    assert model.tree("slick_deque", 2, [50], [10], [1]) == pytest.approx(
        2 * operations_per_edge("slick_deque", [100], [1])
    )
    assert model.tree("panes", 2, [50], [10], [1]) == pytest.approx(2 * 5), "a range in its own slides, equation 3"
    assert model.tree("flat_fit", 2, [50], [10], [7]) == pytest.approx(2 * 3), "equal windows are one"


# -- sums --------------------------------------------------------------------------------------------------------------

WINDOW = st.tuples(st.integers(1, 5000), st.integers(1, 500), st.integers(1, 9))
WINDOWS = st.lists(WINDOW, min_size=1, max_size=12, unique_by=lambda window: window[:2])


@given(WINDOWS, st.integers(0, 12))
def test_sums_of_disjoint_sets_add_up(windows: list[tuple[int, int, int]], cut: int) -> None:
    whole = window_sums(*zip(*windows, strict=True))
    parts = [
        window_sums(*zip(*part, strict=True)) if part else window_sums([], [], [])
        for part in (windows[:cut], windows[cut:])
    ]
    for mine, theirs in zip(astuple(parts[0] + parts[1]), astuple(whole), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@given(WINDOWS, st.floats(0.01, 3))
def test_work_by_its_definition(windows: list[tuple[int, int, int]], rate: float) -> None:
    done = dict(zip(WORK, work("panes", rate, window_sums(*zip(*windows, strict=True))), strict=True))
    assert done["edges"] == rate
    assert done["answers"] == pytest.approx(sum(1 / s for _, s, _ in windows))
    slices = sum((r * rate - 1) / s for r, s, _ in windows)
    assert done["slices"] == pytest.approx(max(0, slices), abs=1e-9)
    assert done["moves"] == pytest.approx(sum(min(rate, r * rate / s) for r, s, _ in windows))
    assert done["logarithms"] == pytest.approx(max(0, sum(np.log2(r * rate) / s for r, s, _ in windows)), abs=1e-9)
    assert done["classes"] == pytest.approx(rate * len({int(np.log2(r)) for r, _, _ in windows}))


def test_windows_that_move_by_a_slice_are_near() -> None:
    """Slides 4, 4 and 8 over slices of 4: two windows move by one slice each time, the third by two."""
    done = dict(zip(WORK, work("slick_deque_inv", 0.25, window_sums([40, 80, 160], [4, 4, 8], [1, 1, 1])), strict=True))
    assert done["near"] == pytest.approx(0.5)
    assert done["answers"] == pytest.approx(0.125)
    assert 0 < done["moves"] < 0.25
    assert work("two_stacks", 0.25, window_sums([40, 80], [4, 4], [1, 1]))[WORK.index("near")] == 0


def test_a_window_without_a_beginning_counts_as_one_slide() -> None:
    assert window_sums([np.inf], [10], [1]).longest == 10


# -- nanoseconds -------------------------------------------------------------------------------------------------------


def flat(**weights: float) -> tuple[float, ...]:
    return tuple(weights.get(part, 0.0) for part in WORK)


RUNNING = Curve(flat(edges=2, answers=3, steady=4), flat(edges=5, answers=6), flat(edges=1, answers=1), 1000.0)
INTERVAL = Curve(flat(edges=20, answers=30), flat(edges=50), flat(edges=10), 3000.0)
FIGURES = Figures(
    {"count": {"r_int": RUNNING}, "sum": {"r_int": RUNNING}, "max": {"b_int": INTERVAL, "panes": INTERVAL}},
    1.0,
    {"count": 2.0, "sum": 3.0, "max": 4.0},
    {"count": 5.0, "sum": 6.0, "max": 7.0},
    100.0,
    10.0,
)


def test_nanoseconds_of_a_tree() -> None:
    """Edges 2 a unit; windows (50, 10) of one query and (50, 5) of three: 0.3 answers and 0.7 results a unit."""
    model = CalibratedModel(FIGURES)
    count, extreme = 2 * 2 + 0.3 * 3, 2 * 20 + 0.3 * 30
    delivery = 0.7 * (100 + 3 * 10)
    assert model.tree("b_int", 2, [50, 50], [10, 5], [1, 3]) == pytest.approx(count + extreme + delivery)
    busy = model.with_load(pushes=0.5)
    assert busy.tree("b_int", 2, [50, 50], [10, 5], [1, 3]) == pytest.approx(
        count + extreme + delivery + 0.5 * (1000 + 3000)
    )
    grouped = model.with_load(groups=8)
    count, extreme = 2 * (5 + 8) + 0.3 * (6 + 8), 2 * (50 + 8 * 10)
    delivery = 0.7 * (100 + 8 * 3 * 10)
    assert grouped.tree("b_int", 2, [50, 50], [10, 5], [1, 3]) == pytest.approx(count + extreme + delivery)


def test_the_count_of_rows_may_be_kept_apart() -> None:
    figures = replace(FIGURES, curves={**FIGURES.curves, "count": {"r_int": RUNNING, "b_int": INTERVAL}})
    model, windows = CalibratedModel(figures), ([50, 50], [10, 5], [1, 3])
    assert model.tree("b_int", 2, *windows) > replace(model, row_count_by="r_int").tree("b_int", 2, *windows)
    assert replace(model, row_count_by="r_int").tree("b_int", 2, *windows) == pytest.approx(
        CalibratedModel(FIGURES).tree("b_int", 2, *windows)
    )


def test_one_window_at_each_slice_is_steady() -> None:
    model = CalibratedModel(FIGURES, ("count",))
    assert model.tree("r_int", 0.1, [50], [10], [1]) == pytest.approx(0.1 * 4 + 0.1 * (100 + 2 * 10))
    assert model.tree("r_int", 0.2, [50], [10], [1]) == pytest.approx(0.2 * 2 + 0.1 * 3 + 0.1 * (100 + 2 * 10))


def test_rows_and_intake() -> None:
    model = CalibratedModel(FIGURES)
    assert model.fold(10) == pytest.approx(10 * (1 + 2 + 4))
    assert model.intake(10) == pytest.approx(10 * (1 + 5 + 7))
    assert model.with_load(groups=4).intake(10) == pytest.approx(4 * 10 * (1 + 5 + 7))


def test_what_was_not_measured_is_refused() -> None:
    assert CalibratedModel(FIGURES).tree("materialize_none", 1, [5], [1], [1]) > 0
    with pytest.raises(ValueError, match="'daba' has no measured cost for a state of 'max'"):
        CalibratedModel(FIGURES).tree("daba", 1, [5], [1], [1])


def test_states_by_kind() -> None:
    kinds = (COUNT, SUM_INTEGER, MAXIMUM[Feed.FLOAT], SUM_FLOAT, MOMENTS)
    assert [state_of(kind) for kind in kinds] == ["count", "sum", "max", "max", "max"]


def test_nothing_is_compiled_for_costs() -> None:
    script = (
        "import sys; import panewise.optimize.sharing.costs.weave_costs;"
        "import panewise.optimize.sharing.costs.calibration as c;"
        "c.shipped(); c.load(); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

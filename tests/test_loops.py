"""Whatever serves until a loop is compiled leads to its being compiled."""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import panewise as pw
from panewise import loops
from panewise.aggregates.states import SUM_INTEGER
from panewise.loops import is_compiled, is_worth_calling
from panewise.operators.family import family
from panewise.slicing import open_slices, slot_loops
from panewise.synopses import interval
from panewise.synopses.interval import IntervalSynopsis
from panewise.synopses.recompute import RecomputeSynopsis
from tests.synopses.random_states import RANKS, partials


def fresh() -> Any:
    """A loop that no process has compiled."""
    return njit(lambda number: number + 1)


def test_small_pieces_of_work_add_up() -> None:
    loop = fresh()
    assert [is_worth_calling(loop, 40, 50, 100) for _ in range(4)] == [False, False, True, True]
    assert not is_compiled(loop)  # only a call compiles
    loop(1)
    assert is_worth_calling(loop, 1, 50, 100)


def test_a_large_piece_is_worth_it_at_once() -> None:
    loop = fresh()
    assert is_worth_calling(loop, 51, 50, 1_000_000)
    assert not is_worth_calling(loop, 50, 50, 1_000_000)


def test_work_of_nothing_counts_too() -> None:
    loop = fresh()
    assert sum(not is_worth_calling(loop, 0, 50, 10) for _ in range(30)) <= 11


def test_a_loop_on_the_disk_is_called(tmp_path: Path) -> None:
    source = tmp_path / "doubled_loop.py"
    source.write_text("def doubled(number):\n    return 2 * number\n")

    def loaded() -> Any:
        spec = importlib.util.spec_from_file_location("doubled_loop", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        loop = njit(module.doubled)
        loop.enable_caching()
        return loop

    first = loaded()
    assert not is_worth_calling(first, 1, 50, 100)
    first(3)
    again = loaded()  # as in another process
    assert not is_compiled(again)
    assert is_worth_calling(again, 1, 50, 100)


@pytest.mark.parametrize("nested", [False, True])
def test_small_answers_compile_the_loop_of_the_interval_synopsis(nested: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is ever large enough to be worth a compilation by itself."""
    monkeypatch.setattr(interval, "BY_HAND_IN_ALL", 100)
    for name in ("_answer_sliding", "_answer_nested"):
        monkeypatch.setattr(interval, name, njit(getattr(interval, name).py_func))
    synopsis, oracle = IntervalSynopsis(SUM_INTEGER, 2), RecomputeSynopsis(SUM_INTEGER, 2)
    ints, floats = partials(SUM_INTEGER, 16, 2, np.random.default_rng(3))
    for each in (synopsis, oracle):
        each.insert(ints.copy(), floats.copy(), RANKS)
    starts, ends = (np.array([4, 2]), np.array([8, 8])) if nested else (np.array([2, 4]), np.array([7, 9]))
    loop = synopsis._nested if nested else synopsis._sliding
    compiled = []
    for _ in range(14):
        found, expected = synopsis.answer(starts, ends, RANKS), oracle.answer(starts, ends, RANKS)
        assert np.array_equal(found[0], expected[0])
        compiled.append(is_compiled(loop))
    assert compiled == [False] * 10 + [True] * 4
    assert is_compiled(synopsis._nested) == nested, "a loop that is not asked for is not compiled"


def test_small_batches_compile_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = njit(slot_loops.assign_known.py_func)  # type: ignore[attr-defined]
    for module in (open_slices, family):
        monkeypatch.setattr(module, "assign_known", loop)
    monkeypatch.setattr(family, "SHORT_WAY_IN_ALL", 50)
    engine = pw.Engine()
    engine.execute("""
        CREATE STREAM s (ts TIMESTAMP, k BIGINT);
        CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;
    """)
    counts = []
    for second in range(9):
        engine.push("s", [{"ts": second * 1_000_000 + i, "k": i % 2} for i in range(10)])
        counts += engine.results("q")["n"].to_pylist()
    assert counts == [5, 5] + [10, 10] * 7
    assert is_compiled(loop)
    assert loops._DONE_WITHOUT[loop] == 50


def test_an_interrupt_waits_until_a_loop_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's compiler, interrupted in the middle, compiles nothing any more in that process."""
    loop: Any = loops.compiled_loop(doubled)
    inner, steps = loop._compiler.compile, []

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        steps.append("went on")
        return inner(*arguments)

    monkeypatch.setattr(loop._compiler, "compile", interrupted)
    monkeypatch.setattr(loop, "_cache", type(njit(doubled)._cache)())  # nothing on the disk
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a Spark session of this process has its own
    try:
        with pytest.raises(KeyboardInterrupt):
            loop(21)
        assert steps == ["went on"]
        assert is_compiled(loop)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert loop(21) == 42


def doubled(number: int) -> int:
    return 2 * number

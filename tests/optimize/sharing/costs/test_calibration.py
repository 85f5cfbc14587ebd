"""Calibration: what is kept, when it is stale or damaged, and that measured figures are plausible."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.aggregates.states import MAXIMUM, Feed
from panewise.optimize.sharing.costs import calibration, measuring
from panewise.optimize.sharing.costs.weave_costs import WORK, CalibratedModel
from panewise.synopses.techniques import TECHNIQUES
from panewise.synopses.windows.recompute import RecomputeSynopsis

TINY = measuring.Scale(
    techniques=("panes", "slick_deque"),
    workloads=(
        measuring.MeasuredWorkload((64,), (1,)),
        measuring.MeasuredWorkload((300,), (16,)),
        measuring.MeasuredWorkload.spread(8, 400, (4, 8)),
        measuring.MeasuredWorkload.spread(30, 300, (64,)),
    ),
    workloads_of_groups=(measuring.MeasuredWorkload((64,), (16,)), measuring.MeasuredWorkload.spread(8, 100, (32, 64))),
    passes=2,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, and nothing kept in the process."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibration, "_KEPT", {})
    return tmp_path / "panewise"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Measuring gives the shipped figures at once; a call of it is noted."""
    calls: list[Any] = []

    def measure(scale: Any = None) -> Any:
        calls.append(scale)
        return calibration.shipped().figures

    monkeypatch.setattr(measuring, "measure", measure)
    return calls


def test_measured_once(cache: Path, measured: list[Any]) -> None:
    assert calibration.load() is None
    assert measured == []
    first = calibration.calibrated()
    assert calibration.calibrated() == calibration.load() == first
    assert len(measured) == 1
    assert [path.parent for path in (calibration.calibration_path(),)] == [cache]
    assert [path.name for path in cache.iterdir()] == [calibration.calibration_path().name]
    calibration.calibrated(refresh=True)
    assert len(measured) == 2


@pytest.mark.parametrize("what", ["format", "panewise", "numba", "numpy", "machine"])
def test_stale_where_something_has_changed(what: str, measured: list[Any]) -> None:
    calibration.calibrated()
    path = calibration.calibration_path()
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, what: "another"}))
    assert calibration.load() is None
    calibration.calibrated()
    assert len(measured) == 2
    assert calibration.load() is not None


def damages() -> list[str]:
    good = calibration.figures_to_json(calibration.shipped().figures)
    identity = calibration._identity()
    bad: list[Any] = [
        {**good, "slot_ns": -1},
        {**good, "slot_ns": "soon"},
        {**good, "report_ns": math.inf},
        {**good, "result_ns": None},
        {**good, "curves": {}},
        {**good, "curves": {**good["curves"], "count": {}}},
        {**good, "curves": {**good["curves"], "max": {"panes": {"single": {"work": 1}, "several": {}, "each": {}}}}},
        {**good, "curves": {**good["curves"], "max": {"panes": []}}},
        {**good, "fold_ns": {}},
        [],
    ]
    return ["", "{", "[]", "null", json.dumps(identity), *(json.dumps({**identity, "figures": each}) for each in bad)]


@pytest.mark.parametrize("text", damages(), ids=range(len(damages())))
def test_a_damaged_file_is_measured_again(text: str, cache: Path, measured: list[Any]) -> None:
    cache.mkdir()
    calibration.calibration_path().write_text(text)
    assert calibration.load() is None
    calibration.calibrated()
    assert len(measured) == 1
    assert calibration.load() is not None


def test_bytes_that_are_no_text(cache: Path, measured: list[Any]) -> None:
    cache.mkdir()
    calibration.calibration_path().write_bytes(b"\xff\xfe\x00")
    assert calibration.load() is None


def test_kept_in_the_process_where_nothing_can_be_written(cache: Path, measured: list[Any]) -> None:
    cache.write_text("a file where the folder would be")
    model = calibration.calibrated()
    assert calibration.calibrated() is calibration.load() is model
    assert len(measured) == 1


@pytest.mark.parametrize(
    ("system", "variables", "folder"),
    [
        ("linux", {"XDG_CACHE_HOME": "/somewhere"}, "/somewhere/panewise"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/panewise"),
        ("linux", {}, "/home/me/.cache/panewise"),
        ("darwin", {"XDG_CACHE_HOME": "/somewhere"}, "/home/me/Library/Caches/panewise"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/panewise"),
        ("win32", {}, "/home/me/AppData/Local/panewise"),
    ],
)
def test_folders(system: str, variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert calibration.cache_folder() == Path(folder)


def check_plausible(model: CalibratedModel, techniques: tuple[str, ...]) -> None:
    for technique in techniques:
        costs = [
            model.tree(technique, rate, ranges, [10.0] * len(ranges), [1] * len(ranges))
            for rate, ranges in ((0.1, [100]), (1.0, [100]), (1.0, [100, 1000]), (1.0, list(range(100, 1100, 10))))
        ]
        assert all(math.isfinite(cost) and cost > 0 for cost in costs)
        # A slice and an answer take somewhere between a tenth of a nanosecond and some microseconds here.
        assert costs[0] < costs[-1] < 100_000
    assert 0 < model.fold(1) < 1000
    assert 0 < model.intake(1) < 10_000


def test_shipped_figures_are_plausible() -> None:
    model = calibration.shipped()
    check_plausible(model, ("panes", "b_int", "flat_fat", "flat_fit", "slick_deque", "l_int", "two_stacks", "daba"))
    whole = model.with_load(states=("count", "sum"))
    check_plausible(whole, (*measuring.PARTS, "materialize_none"))
    many = [float(length) for length in range(100, 1000, 5)]
    alone = model.with_load(states=("max",))
    costs = {
        name: alone.tree(name, 1.0, many, [10.0] * len(many), np.ones(len(many)))
        for name in ("panes", "two_stacks", "slick_deque")
    }
    assert costs["slick_deque"] < costs["two_stacks"] < costs["panes"], "many ranges of MAX"


def test_figures_survive_the_file() -> None:
    figures = calibration.shipped().figures
    text = json.dumps(calibration.figures_to_json(figures))
    assert calibration.figures_from_json(json.loads(text)) == figures


def test_a_tiny_calibration() -> None:
    model = calibration.calibrated(scale=TINY)
    check_plausible(model, ("panes", "slick_deque"))
    assert set(model.figures.curves["max"]) == {"panes", "slick_deque"}
    assert set(model.figures.curves["count"]) == {"panes", "r_int"}
    panes = dict(zip(WORK, model.figures.curves["max"]["panes"].single, strict=True))
    assert 0.02 < panes["slices"] < 200, "nanoseconds of a combination"
    kept = calibration.load()
    assert kept is not None
    windows = [100.0, 1000.0], [10.0, 20.0], [1, 1]
    assert kept.tree("panes", 1.0, *windows) == pytest.approx(model.tree("panes", 1.0, *windows), rel=0.01)


@given(st.lists(st.floats(0.1, 50), min_size=2, max_size=2), st.integers(0, 2**32 - 1))
def test_a_fit_finds_the_weights_that_made_the_times(weights: list[float], seed: int) -> None:
    done = np.random.default_rng(seed).random((8, 3)) + 0.1
    done[:, 2] = 0  # a part that does not occur
    found = measuring.fitted(done, done @ np.array([*weights, 7.0]))
    np.testing.assert_allclose(found, [*weights, 0.0], rtol=1e-6)


def test_no_weight_is_negative() -> None:
    done = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    found = measuring.fitted(done, np.array([3.0, 2.0, 1.0]))
    assert (found >= 0).all() and found.any()


def test_runs_ask_what_the_engine_asks() -> None:
    """All that is due in a call, in the order of ends and shortest first, and the answers are those of the oracle."""
    windows = measuring.MeasuredWorkload((6, 3), (4, 2))
    starts, ends, numbers = windows.due(4)
    assert list(zip(starts.tolist(), ends.tolist(), numbers.tolist(), strict=True)) == [
        (-1, 2, 1), (1, 4, 1), (-2, 4, 0),
    ]  # fmt: skip
    kind = MAXIMUM[Feed.FLOAT]
    run, oracle = (
        measuring.MeasuredRun(made, windows) for made in (TECHNIQUES["panes"].made(kind, 1), RecomputeSynopsis(kind, 1))
    )
    for each in (run, oracle):
        assert each.call() >= 0
    asked = run.synopsis.after - np.array([6, 3]), np.full(2, run.synopsis.after), np.empty(0, np.int64)
    np.testing.assert_array_equal(run.synopsis.answer(*asked)[1], oracle.synopsis.answer(*asked)[1])

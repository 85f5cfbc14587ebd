"""Golab 2006, section 3.6: all executions of a query give what its definition says, and what is said of them is so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from panewise.errors import PanewiseError
from papers.connection_trace import TRACE
from papers.experiments import PAPER_EXPERIMENTS
from papers.golab2006 import ch3
from papers.golab2006.ch3 import ahead, crossing
from papers.golab2006.kept_input_distinct import spread
from papers.golab2006.update_patterns import (
    DIRECT,
    MANY,
    NT,
    UPA,
    Build,
    Trace,
    distinct,
    join,
    negated_join,
    negation,
)
from papers.golab2006.update_patterns_runs import (
    STEP,
    ExecutionOutcome,
    differences,
    measured,
    outcomes_of,
    read_trace,
    trace_of,
)

Rows = list[int]


def random_trace(rows: int, seed: int) -> Trace:
    rng = np.random.default_rng(seed)
    protocols = rng.choice(np.array(["tcp", "udp", "icmp"]), rows, p=[0.6, 0.2, 0.2])
    return trace_of(rng.integers(0, 100, rows), rng.integers(0, 12, rows), protocols)


def paired(trace: Trace, left: Rows, right: Rows) -> Rows:
    return sorted((a << 32) + b for a in left for b in right if trace.sources[a] == trace.sources[b])


def without(trace: Trace, left: Rows, right: Rows) -> Rows:
    there = {trace.sources[row] for row in right}
    return [row for row in left if trace.sources[row] not in there]


def link(trace: Trace, window: int, number: int, links: int, protocol: str | None = None) -> Rows:
    """The rows of the last window that are on a link."""
    rows = range(len(trace) - window, len(trace))
    return [r for r in rows if trace.ports[r] % links == number and protocol in (None, trace.protocols[r])]


def joined(trace: Trace, window: int) -> Rows:
    return paired(trace, link(trace, window, 0, 2, "tcp"), link(trace, window, 1, 2, "tcp"))


def sources(trace: Trace, window: int) -> Rows:
    return sorted(spread(np.unique(trace.sources[link(trace, window, 0, 2)])).tolist())


def pairs(trace: Trace, window: int) -> Rows:
    return sorted(spread(np.unique(trace.pairs[link(trace, window, 0, 2)])).tolist())


def negated(trace: Trace, window: int) -> Rows:
    return without(trace, link(trace, window, 0, 2), link(trace, window, 1, 2))


def negated_pairs(trace: Trace, window: int) -> Rows:
    left = without(trace, link(trace, window, 0, 3), link(trace, window, 2, 3))
    return paired(trace, left, link(trace, window, 1, 3, "tcp"))


CASES: list[tuple[Callable[[Trace, int], Rows], dict[str, Build]]] = [
    (joined, {**{name: join(name, "tcp") for name in (UPA, NT, DIRECT)}, "many": join(UPA, "tcp", MANY)}),
    (sources, {name: distinct(name, pairs=False) for name in (UPA, NT, DIRECT)}),
    (pairs, {name: distinct(name, pairs=True) for name in (UPA, NT, DIRECT)}),
    (negated, {name: negation(name) for name in (UPA, NT)}),
    (
        negated_pairs,
        {
            UPA: negated_join(UPA, "tcp"),
            NT: negated_join(NT, "tcp"),
            ch3.JOIN_UP: negated_join(NT, "tcp", join_up=True),
        },
    ),
]


def test_it_is_found_by_name() -> None:
    assert PAPER_EXPERIMENTS["golab2006-ch3"].module == "golab2006.ch3"


@pytest.mark.parametrize(("definition", "executions"), CASES, ids=[definition.__name__ for definition, _ in CASES])
@pytest.mark.parametrize(("window", "seed"), [(STEP, 1), (60, 2), (250, 3), (700, 4)])
def test_every_execution_gives_what_the_query_says(
    definition: Callable[[Trace, int], Rows], executions: dict[str, Build], window: int, seed: int
) -> None:
    trace = random_trace(1500, seed)
    expected = definition(trace, window)
    assert expected or window < 100
    outcomes = {name: [measured(build, trace, window, rows=600)] for name, build in executions.items()}
    for name, (outcome,) in outcomes.items():
        assert outcome.results.tolist() == expected, name
        assert outcome.seconds.shape == (2, 600 // STEP) and outcome.state_bytes > 0
    assert differences([window], outcomes, ch3.JOIN_UP) == []
    assert outcomes[UPA][0].came > len(expected) or window < 100


def test_a_trace_is_replayed_for_long_windows() -> None:
    trace = random_trace(200, 5)
    outcome = measured(negation(UPA), trace, window=500, rows=160)
    assert outcome.results.tolist() == negated(trace.repeated(4), 500)


def test_what_a_window_must_keep() -> None:
    # Few different values: delta-star holds two instants a value, the others every row of the window.
    trace = trace_of(np.arange(20_000) % 7, np.zeros(20_000, np.int64), np.full(20_000, "tcp"))
    held = {name: measured(distinct(name, pairs=False), trace, 10_000, 320).state_bytes for name in (UPA, NT, DIRECT)}
    assert held[NT] > held[DIRECT] > 2 * held[UPA]


def test_repetitions_keep_the_least_time_of_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter([[9.0, 9.0], [1.0, 5.0], [3.0, 2.0]])
    monkeypatch.setattr(
        "papers.golab2006.update_patterns_runs.measured",
        lambda build, trace, window, rows: outcome_of(np.array([next(turns), [0.0, 1.0]])),
    )
    found = outcomes_of({UPA: negation(UPA)}, random_trace(20, 6), [20, 20], 10, 1)
    assert [one.seconds[0].tolist() for one in found[UPA]] == [[1.0, 5.0], [3.0, 2.0]]
    turns = iter([[9.0, 9.0], [1.0, 5.0], [3.0, 2.0], [4.0, 4.0], [4.0, 4.0]])
    found = outcomes_of({UPA: negation(UPA)}, random_trace(20, 6), [STEP, 20], 10, 2)
    assert found[UPA][0].seconds.tolist() == [[1.0, 2.0], [0.0, 1.0]]
    assert found[UPA][0].milliseconds == pytest.approx(2e5) and found[UPA][0].result_milliseconds == 0.5e5


def outcome_of(seconds: float | np.ndarray, results: Rows | None = None, came: int = 0) -> ExecutionOutcome:
    times = np.array([[seconds], [0.0]]) if isinstance(seconds, float) else seconds
    return ExecutionOutcome(times, 1000.0, np.array(results or [], np.int64), came, 0.4, 1.0)


def test_differences_are_found() -> None:
    good, fewer, other = outcome_of(1.0, [1, 2], 5), outcome_of(1.0, [1, 2], 4), outcome_of(1.0, [1, 3], 5)
    assert not differences([10], {"a": [good], "b": [good]}, "c")
    assert "different relations" in differences([10], {"a": [good], "b": [other]}, "b")[0]
    assert "had 5 results, b 4" in differences([10], {"a": [good], "b": [fewer]}, "c")[0]
    assert not differences([10], {"a": [good], "b": [fewer]}, "b")


def test_what_is_said_follows_from_the_times() -> None:
    def lines(*seconds: float) -> list[ExecutionOutcome]:
        return [outcome_of(second) for second in seconds]

    assert crossing([1, 2, 3], lines(1.0, 3.0, 3.0), lines(2.0, 2.0, 2.0)) == 2
    assert crossing([1, 2, 3], lines(3.0, 1.0, 3.0), lines(2.0, 2.0, 2.0)) == 3
    assert crossing([1, 2, 3], lines(3.0, 3.0, 1.0), lines(2.0, 2.0, 2.0)) is None
    found = {UPA: lines(1.0, 2.0), NT: lines(1.0, 3.0), DIRECT: lines(0.5, 1.0)}
    assert ahead([1, 2], found, UPA, NT, 1.5, "so").endswith("NT takes 1.50 times as long as UPA: agrees")
    assert "agrees in direction, by less" in ahead([1, 2], found, UPA, NT, 2, "so")
    flat = {UPA: lines(1.0, 2.0), NT: lines(2.0, 2.1)}
    assert "DOES NOT AGREE" in ahead([1, 2], flat, UPA, NT, 2, "so")
    assert "NT hardly grows with the window" in ahead([1, 2], flat, UPA, NT, 2, "so")
    assert "0.50 times as long as UPA: DOES NOT AGREE" in ahead([1, 2], found, UPA, DIRECT, 2, "so")


def write_trace(folder: Path) -> None:
    trace = random_trace(1200, 7)
    columns = zip(trace.sources, trace.ports, trace.protocols, strict=True)
    lines = [f"{1000 + i}.5\t10.0.0.{source}\t{port}\t{protocol}" for i, (source, port, protocol) in enumerate(columns)]
    text = "\n".join(["ts\tid.orig_h\tid.resp_p\tproto", *reversed(lines)]) + "\n"
    with pa.output_stream(str(folder / TRACE), compression="zstd") as stream:
        stream.write(text.encode())


def test_all_of_it_runs_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path)
    trace, expected = read_trace(tmp_path / TRACE), random_trace(1200, 7)
    assert trace.ports.tolist() == expected.ports.tolist() and trace.protocols[5] == expected.protocols[5]
    drawn = []
    monkeypatch.setattr(ch3, "show_plot", lambda console, name, panels: drawn.extend(panels))
    assert ch3.run(quick=True, folder=tmp_path) == 0
    shown = capsys.readouterr().out
    for title in ("query 1, ICMP", "query 1, TCP", "query 2, sources", "query 2, pairs", "query 3", "query 4, TCP"):
        assert title in shown
    assert "WRONG" not in shown and len(drawn) == 14
    monkeypatch.setattr(ch3, "differences", lambda *_: ["something"])
    only = ch3._queries()[4:5]
    monkeypatch.setattr(ch3, "_queries", lambda: only)
    assert ch3.run(quick=True, folder=tmp_path) == 1
    assert "WRONG: something" in capsys.readouterr().out


def test_without_a_trace_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(PanewiseError, match="there is no connection trace"):
        ch3.run(quick=True, folder=tmp_path)

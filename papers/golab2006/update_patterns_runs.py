"""Runs of queries over a connection trace by different executions: how long, how much state, and the same results.

Times are of the rows at the end of the trace, after all windows have filled. Repetitions do the same step by step, so
that of each step the least time counts: what another process took away is gone. State is the mean of what windows,
operators and the result hold; results are held as numbers with expirations, without their columns. Where a window and
the rows measured are more than the trace has, it is replayed. Golab 2006, section 3.6.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.operators.relation_delta import Delta
from papers.connection_trace import connections, source_numbers
from papers.golab2006.update_patterns import Build, Trace

STEP = 10  # rows
RESULT_COLUMNS = ("l.row", "r.row", "value")
Times = NDArray[np.float64]


@dataclass(frozen=True)
class ExecutionOutcome:
    """Of one execution with one window: seconds of each step, for the plan and for keeping the result (the rows of this
    matrix); bytes; the rows of the result at the end; how many results there ever were; and the share of them that
    ended before they died, and in how many steps for 1,000 rows some did."""

    seconds: Times
    state_bytes: float
    results: Ints
    came: int
    premature: float
    ending_steps: float

    @property
    def milliseconds(self) -> float:
        """For 1,000 rows."""
        return float(self.seconds.sum(axis=0).mean()) * 1e6 / STEP

    @property
    def result_milliseconds(self) -> float:
        """Of these, for keeping the result."""
        return float(self.seconds[1].mean()) * 1e6 / STEP


Outcomes = dict[str, list[ExecutionOutcome]]  # by execution, each by window


def read_trace(path: Path) -> Trace:
    """All connections in the order of their starts."""
    table = connections(path, ["id.orig_h", "id.resp_p", "proto"])
    sources = source_numbers(table)
    protocols = table.column("proto").to_numpy().astype(np.str_)
    return trace_of(sources, table.column("id.resp_p").to_numpy(), protocols)


def trace_of(sources: Ints, ports: Ints, protocols: NDArray[np.str_]) -> Trace:
    pairs = np.unique((sources << 16) + ports, return_inverse=True)[1]
    return Trace(sources, pairs.astype(np.int64), ports, protocols)


class _Said:
    """Everything that a plan said of its result, gathered outside of what is timed."""

    def __init__(self) -> None:
        self._came: list[tuple[Ints, Ints, Ints]] = []
        self._ended: list[Ints] = []

    def add(self, delta: Delta) -> None:
        if len(delta):
            named = [delta.batch.column(name).to_numpy() for name in RESULT_COLUMNS if name in delta.batch.schema.names]
            row = named[0] if len(named) == 1 else (named[0] << 32) + named[1]
            self._came.append((delta.sequences, delta.deaths, row))
        if len(delta.ended):
            self._ended.append(delta.ended)

    def alive(self, instant: int) -> tuple[Ints, Ints, int]:
        """Numbers and rows of the results that are there, both sorted, and how many ever were."""
        if not self._came:
            return np.empty(0, np.int64), np.empty(0, np.int64), 0
        numbers, deaths, rows = (np.concatenate(column) for column in zip(*self._came, strict=True))
        there = deaths > instant
        if self._ended:
            there &= ~np.isin(numbers, np.concatenate(self._ended))
        return np.sort(numbers[there]), np.sort(rows[there]), len(numbers)


def measured(build: Build, trace: Trace, window: int, rows: int) -> ExecutionOutcome:
    """Runs over the end of the trace: fills a window and measures the rows that follow."""
    trace = trace.repeated(-(-(window + rows) // len(trace)))
    execution = build(trace, window // STEP)
    begin, filled, instants = len(trace) - rows - window, window // STEP, (window + rows) // STEP
    said, held, ending_steps = _Said(), [], 0
    seconds = np.zeros((2, instants))
    for instant in range(instants):
        first = begin + instant * STEP
        before = process_time()
        deltas = [link.step(instant, first, first + STEP) for link in execution.windows]
        result = execution.plan.run(deltas, instant, instant + 1)
        between = process_time()
        if execution.kept is not None:
            execution.kept.take(result, instant + 1)
        seconds[:, instant] = between - before, process_time() - between
        if instant >= filled and instant % 16 == 0:
            held.append(execution.bytes_held)
        ending_steps += instant >= filled and len(result.ended) > 0
        said.add(result)
    numbers, results, came = said.alive(instants - 1)
    if execution.kept is not None:
        assert np.array_equal(np.sort(execution.kept.ids()), numbers), "the kept result is not what the plan said"
    premature = 0.0 if execution.negation is None else execution.negation.premature_share
    return ExecutionOutcome(
        seconds[:, filled:], float(np.mean(held)), results, came, premature, 1000 * ending_steps / rows
    )


def outcomes_of(
    executions: Mapping[str, Build], trace: Trace, windows: Sequence[int], rows: int, repetitions: int
) -> Outcomes:
    """Executions take turns, so that what else the machine does meets all of them."""
    for build in executions.values():
        measured(build, trace, windows[1], STEP * 16)  # so that loops are compiled, or read, before they are timed
    found: Outcomes = {name: [] for name in executions}
    for window in windows:
        turns = [[measured(build, trace, window, rows) for build in executions.values()] for _ in range(repetitions)]
        for name, same in zip(executions, zip(*turns, strict=True), strict=True):
            least = np.min([outcome.seconds for outcome in same], axis=0)
            found[name].append(replace(same[0], seconds=least))
    return found


def differences(windows: Sequence[int], outcomes: Outcomes, other_plan: str) -> list[str]:
    """Where executions of a query do not agree. A plan of another shape may bring a result back more often."""
    first, *others = outcomes
    wrong = []
    for name in others:
        for window, one, other in zip(windows, outcomes[first], outcomes[name], strict=True):
            if not np.array_equal(one.results, other.results):
                wrong.append(f"window {window:,}: {first} and {name} end with different relations")
            elif one.came != other.came and name != other_plan:
                wrong.append(f"window {window:,}: {first} had {one.came:,} results, {name} {other.came:,}")
    return wrong

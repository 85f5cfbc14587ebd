"""Load shedding: which rows of a push are taken when too many come, and how many rows each taken row stands for.

    WITH (shedding = 'random', max_rate = 100000)               every row has the same chance
    WITH (shedding = 'semantic', keep = 'level >= 3', ...)      rows for which `keep` is true are always taken
    WITH (shedding = 'random', queue = 1000000)                 depends on how full the queue is

There are two reasons to drop rows, which are counted separately. `max_rate`: more rows a second come, beyond a burst of
one second's worth. `queue`: the stream's queue (`input_queue.py`) is more than half full. The target is then the
measured rate of processing, and is lower the fuller the queue is. The rows of a push are taken with the probability

    p = (target - rate of rows that are kept in any case) / (rate of the other rows),  at least `SHARE_LEAST`, at most 1

by rates that are faded over a second and count the push itself. p is fixed before anything is drawn for the push. So
each row is taken independently with a known probability, and the weights 1/p give unbiased sums
(`plan/scale_sampled.py`). Below the target nothing is drawn or dropped. The least share gives every row a chance:
without it, the rows beside a flood of kept rows could not be estimated. So such a flood is not reduced.

Dropped rows still move the watermark: overload does not stop time. The random generator is seeded with the stream's
name, and is part of snapshots. Cost: a few operations on whole columns per push. After random and semantic load
shedding in Golab 2006, section 2.4.3.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import flags
from panewise.catalog import Catalog, Options, StreamDefinition
from panewise.errors import PlanError, QueryError
from panewise.language.bind.binder import bind_one, parse
from panewise.language.expressions import Expression
from panewise.language.sql_text import name_to_sql
from panewise.language.statements import Select, SelectOnce
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.scale_sampled import EXCESS, MARK

SMOOTHED_S = 1.0  # Rates are faded over this time; rows of this time may exceed `max_rate` in a burst.
SHARE_LEAST = 0.01
TOGETHER_ROWS = 1024  # Rows pushed one by one are judged when there are this many.
TOGETHER_S = 0.05  # They are also judged when the first is this old.
FULL_FROM = 0.5  # Rows are dropped when more than this share of the queue is full.
REASONS = ("max_rate", "queue")
OPTIONS = ("shedding", "max_rate", "keep", "queue")


def check_overload_options(definition: StreamDefinition) -> None:
    """PlanError if options about overload do not fit together."""
    options = dict(definition.options)
    mode = options.get("shedding")
    for name in ("max_rate", "keep"):
        if name in options and mode is None:
            raise PlanError(f"'{name}' says what to shed, and stream '{definition.name}' sheds nothing",
                            hint="add shedding = 'random' or shedding = 'semantic'")  # fmt: skip
    if mode == "semantic" and "keep" not in options:
        raise PlanError("shedding = 'semantic' needs to know which rows to keep", hint="add keep = 'a condition'")
    if mode == "random" and "keep" in options:
        raise PlanError("shedding = 'random' cannot prefer some rows", hint="write shedding = 'semantic'")
    if mode not in (None, "none") and "max_rate" not in options and "queue" not in options:
        raise PlanError(f"shedding = '{mode}' needs to know when to begin", hint="add max_rate = rows a second, "
                        "or queue = rows that may wait")  # fmt: skip
    for name in (EXCESS, MARK):
        if mode is not None and definition.schema.find(name) is not None:
            raise PlanError(f"a stream with shedding cannot have a column '{name}'", hint="rename it")
    if "keep" in options:
        keep_condition(definition)


def altered(definition: StreamDefinition, options: dict[str, Any]) -> StreamDefinition:
    """The definition with changed options; PlanError if they do not fit, or cannot be set any more."""
    changed = replace(definition, options=tuple((dict(definition.options) | options).items()))
    if changed.sheds and not definition.sheds:
        raise PlanError(
            f"'{definition.name}' was created without shedding, so its readers count every row as one",
            hint="drop it and create it with shedding = 'none', which can be altered",
        )
    check_overload_options(changed)
    return changed


def refuse_overload_options(stream: str, options: Options) -> None:
    """PlanError if options ask for what only the embedded engine does."""
    for name, _ in options:
        if name in OPTIONS:
            raise PlanError(
                f"'{name}' of stream '{stream}' is for the embedded engine: Spark reads no more than it can process",
                hint="leave it out; a Kafka source has max_offsets_per_trigger",
            )


def keep_condition(definition: StreamDefinition) -> Expression:
    """The bound condition of `keep`; errors underline its place in the option's text."""
    written = str(dict(definition.options)["keep"])
    catalog = Catalog()
    catalog.add(definition)
    before = f"SELECT * FROM {name_to_sql(definition.name)} WHERE ("
    try:
        statements = parse(f"{before}{written})")
        bound = bind_one(statements[0], catalog)
    except QueryError as problem:
        raise PlanError(f"keep = '{written}' is no condition on a row: {problem.message}", hint=problem.hint) from None
    plain = isinstance(bound, SelectOnce) and isinstance(bound.query, Select) and len(statements) == 1
    query = bound.query if plain else None  # type: ignore[attr-defined]
    if query is None or query.where is None or query.exists or query.aggregated:
        raise PlanError(f"keep = '{written}' is no condition on a row")
    condition: Expression = query.where
    return condition


class Shedder:
    """The sampling of one stream, and the counts of its rows that were taken and shed."""

    def __init__(self, definition: StreamDefinition) -> None:
        self._taken_rows = 0
        self._shed_rows = dict.fromkeys(REASONS, 0)
        self._random = np.random.default_rng(zlib.crc32(definition.name.lower().encode()))
        self.share = 1.0  # The probability p of the last push.
        self._offered = 0.0  # Rows that came in the last second, faded.
        self._kept = 0.0  # Rows among them that are always taken.
        self._backlog = 0.0  # Rows taken beyond `max_rate`.
        self._at: float | None = None
        self._together_since = 0.0
        self.configure(definition)

    def configure(self, definition: StreamDefinition) -> None:
        """Sets the options of the definition."""
        options: dict[str, Any] = dict(definition.options)
        self.mode = str(options["shedding"])
        self._rate: int | None = options.get("max_rate")
        self._keep = compiled(keep_condition(definition)) if "keep" in options else None

    def is_due(self, rows: int, now: float) -> bool:
        """Whether rows that were pushed one by one are to be judged now: there are many, or the first is old."""
        if rows == 1:
            self._together_since = now
        return rows >= TOGETHER_ROWS or now - self._together_since > TOGETHER_S

    def shed_all(
        self, batches: list[pa.RecordBatch], now: float, full: float, sustainable: float | None
    ) -> tuple[list[pa.RecordBatch], dict[str, int]]:
        """Applies `shed` to the batches of a push; returns the taken rows, and the number of dropped rows by reason."""
        taken: list[pa.RecordBatch] = []
        dropped: dict[str, int] = {}
        for batch in batches:
            some, reason = self.shed(batch, now, full, sustainable)
            taken.append(some)
            if reason is not None:
                dropped[reason] = dropped.get(reason, 0) + batch.num_rows - some.num_rows
        return taken, dropped

    def shed(
        self, batch: pa.RecordBatch, now: float, full: float = 0.0, sustainable: float | None = None
    ) -> tuple[pa.RecordBatch, str | None]:
        """The taken rows, with their excess as the last column, and the reason why others are dropped.

        `full`: the share of the queue that is in use. `sustainable`: rows per second that can be processed, if known.
        """
        kept = self._kept_rows(batch)
        share, reason = self._decided(batch.num_rows, 0 if kept is None else int(kept.sum()), now, full, sustainable)
        self.share = share
        if share == 1.0:
            return _with_excess(batch, np.zeros(batch.num_rows)), None
        taken = self._random.random(batch.num_rows) < share
        excess = np.full(batch.num_rows, 1 / share - 1)
        if kept is not None:
            taken |= kept
            excess[kept] = 0.0
        return _with_excess(batch.filter(pa.array(taken)), excess[taken]), reason

    def _kept_rows(self, batch: pa.RecordBatch) -> NDArray[np.bool_] | None:
        if self.mode != "semantic" or self._keep is None:
            return None
        return flags(self._keep(batch).fill_null(False))

    def _decided(
        self, rows: int, kept: int, now: float, full: float, sustainable: float | None
    ) -> tuple[float, str | None]:
        """The probability of rows that are not always taken, and the reason if it is below 1."""
        elapsed = 0.0 if self._at is None else max(now - self._at, 0.0)
        self._at = now
        fade = math.exp(-elapsed / SMOOTHED_S)
        self._offered = self._offered * fade + rows
        self._kept = self._kept * fade + kept
        target, reason = math.inf, None
        if self._rate is not None:
            burst = self._rate * SMOOTHED_S
            self._backlog = max(self._backlog - self._rate * elapsed, 0.0)
            if self._backlog + rows > burst:
                # Rates lag behind a sudden rise: rows that were taken beyond the rate until then lower the target.
                target, reason = self._rate * burst / max(self._backlog, burst), "max_rate"
        if full > FULL_FROM:
            pace = (sustainable or self._offered / SMOOTHED_S) * (1 - full) / (1 - FULL_FROM)
            target, reason = min((target, reason), (pace, "queue"), key=lambda limit: limit[0])
        others = self._offered - self._kept
        share = 1.0
        if self.mode != "none" and reason is not None and rows > kept and others > 0:
            share = min(max((target * SMOOTHED_S - self._kept) / others, SHARE_LEAST), 1.0)
        if self._rate is not None:
            self._backlog += kept + share * (rows - kept)
        return share, reason if share < 1.0 else None

    def count(self, taken: int, shed: dict[str, int]) -> None:
        """Rows of a push that the stream has taken in, and rows that it has shed, by reason."""
        self._taken_rows += taken
        for reason, rows in shed.items():
            self._shed_rows[reason] += rows

    def stats(self) -> dict[str, Any]:
        shed = dict(self._shed_rows)
        return {"taken_rows": self._taken_rows, "shed_rows": sum(shed.values()), "shed": shed}

    def snapshot(self) -> dict[str, Any]:
        """The counts, and the state of the generator. Rates depend on this process's clock, and begin anew."""
        random = self._random.bit_generator.state
        return {"counts": self._shed_rows, "taken": self._taken_rows, "random": random}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._shed_rows |= snapshot["counts"]
        self._taken_rows = snapshot["taken"]
        self._random.bit_generator.state = snapshot["random"]


def _with_excess(batch: pa.RecordBatch, excess: NDArray[np.float64]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(excess)], names=[*batch.schema.names, EXCESS])

"""The source `generator`: a trade stream generated from a seed, for demonstrations and tests.

Columns `ts`, `symbol`, `price`, `size`. Symbols are drawn by a Zipf law, prices are a random walk per symbol, sizes are
mostly round lots. The same options give the same rows, and a longer run begins with the rows of a shorter one. With
`disorder = '2 seconds'` a row's event time lies up to that much behind its place in the stream. Cost: O(1) memory, a
few array operations per batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panewise.catalog import StreamDefinition
from panewise.connectors.conform import conform, matching_names
from panewise.connectors.options import (
    STREAM_OPTIONS,
    ConnectorOption,
    duration,
    instant,
    positive_number,
    read_options,
    whole_number,
)
from panewise.temporal import SECOND, instant_us

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

BATCH_ROWS = 65_536
COLUMNS = ("ts", "symbol", "price", "size")
_NAMES = (
    "ALFA BRAV CHAR DELT ECHO FOXT GOLF HOTL INDI JULI KILO LIMA MIKE NOVE OSCR PAPA QUEB ROME SIER TANG UNIF VICT "
    "WHIS XRAY YANK ZULU"
).split()


class GeneratorSource:
    """Generates `rows` trades, `rate` per second of event time, from `start` on."""

    options = (
        *STREAM_OPTIONS,
        ConnectorOption("rows", whole_number(0), 100_000),
        ConnectorOption("rate", positive_number, 1_000.0),
        ConnectorOption("seed", whole_number(0), 0),
        ConnectorOption("start", instant, instant_us("2026-01-01 09:30:00")),
        ConnectorOption("disorder", duration, 0),
        ConnectorOption("symbols", whole_number(1), 20),
    )

    def __init__(self, stream: StreamDefinition) -> None:
        values: dict[str, Any] = read_options(f"stream '{stream.name}'", stream.options, self.options)
        matching_names(COLUMNS, stream.schema, "the generated trade stream")
        self._schema = stream.schema
        self.rows_total: int | None = values["rows"]
        self.files: list[Path] = []
        self._rows: int = values["rows"]
        self._gap_us: float = SECOND / values["rate"]
        self._start_us: int = values["start"]
        self._disorder_us: int = values["disorder"]
        self._seed: int = values["seed"]
        self._symbols: int = values["symbols"]

    def batches(self, files: list[Path] | None = None) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        random = np.random.default_rng(self._seed)
        names = pa.array([_symbol(number) for number in range(self._symbols)])
        popularity = 1.0 / np.arange(1, self._symbols + 1)
        popularity_sums = np.cumsum(popularity / popularity.sum())
        walks = np.log(random.uniform(20.0, 400.0, self._symbols))
        # A price moves by about 0.02 % in a second of event time, whatever the rate.
        step = 2e-4 * float(np.sqrt(self._symbols * self._gap_us / SECOND))
        clock = float(self._start_us)
        for first in range(0, self._rows, BATCH_ROWS):
            # Draws a whole block of random numbers in any case, so that `rows` only determines where the stream ends.
            arrivals = clock + np.cumsum(random.exponential(self._gap_us, BATCH_ROWS))
            clock = float(arrivals[-1])
            symbols = np.searchsorted(popularity_sums, random.random(BATCH_ROWS), side="right")
            symbols = np.minimum(symbols, self._symbols - 1).astype(np.int32)
            prices, walks = _walk(walks, symbols, random.normal(0.0, step, BATCH_ROWS))
            lots = 100 * random.geometric(0.4, BATCH_ROWS)
            odd = random.integers(1, 100, BATCH_ROWS)
            sizes = np.where(random.random(BATCH_ROWS) < 0.7, lots, odd).astype(np.int64)
            delays = random.random(BATCH_ROWS) * self._disorder_us
            instants = np.floor(arrivals).astype(np.int64) - np.floor(delays).astype(np.int64)
            columns = [
                pa.array(instants).cast(pa.timestamp("us", tz="UTC")),
                pa.DictionaryArray.from_arrays(pa.array(symbols), names),
                pa.array(prices),
                pa.array(sizes),
            ]
            batch = pa.RecordBatch.from_arrays(columns, names=list(COLUMNS)).slice(0, self._rows - first)
            yield conform(batch, self._schema, "the generated trade stream")


def _symbol(number: int) -> str:
    return _NAMES[number] if number < len(_NAMES) else f"S{number:05d}"


def _walk(walks: np.ndarray, symbols: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The price of each row after its symbol's step, rounded to cents, and the new state of every symbol's walk."""
    import numpy as np

    order = np.argsort(symbols, kind="stable")
    sorted_symbols = symbols[order]
    sums = np.cumsum(steps[order])
    first = np.searchsorted(sorted_symbols, np.arange(len(walks)))
    before = np.where(first > 0, sums[first - 1], 0.0)
    prices = np.empty(len(symbols))
    prices[order] = np.exp(walks[sorted_symbols] + sums - before[sorted_symbols])
    totals = np.bincount(symbols, weights=steps, minlength=len(walks))
    return np.round(prices, 2), walks + totals

"""The limit of windows, made small: no call closes more of them than it says, and none is refused that would not.

A script pushes rows to a stream in any order within its delay, old ones after new ones and some far ahead, moves time,
flushes, and creates and drops queries that report by time. What a row may close is computed from the list of rows by
the definition (`runtime.window_limit`); what was closed is counted in the results. A second stream, joined with the
first, may wait, so that its first row closes what the first stream has left open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import panewise as pw
from panewise.engine.ingest import window_limit
from panewise.errors import DataError
from panewise.temporal import instant_us

SECOND = 1_000_000
MOST = 12  # windows of a query that one row, punctuation or flush may close
LONG_AGO = -(10**9)
SELECTS = (
    "COUNT(*) AS n FROM s [RANGE {range} SECONDS SLIDE {slide} SECONDS]",
    "v, COUNT(*) AS n FROM s [RANGE {range} SECONDS SLIDE {slide} SECONDS] GROUP BY v",
    "v FROM s [RANGE {range} SECONDS SLIDE {slide} SECONDS]",
    "ISTREAM MAX(v) AS m FROM s [RANGE {range} SECONDS SLIDE {slide} SECONDS]",
    "DISTINCT v FROM s [RANGE {range} SECONDS SLIDE {slide} SECONDS]",
)
JOIN = (
    "COUNT(*) AS n FROM s [RANGE {range} SECONDS SLIDE {slide} SECONDS], "
    "b [RANGE {range} SECONDS SLIDE {slide} SECONDS] WHERE s.v = b.v"
)


class Play:
    """One script. `good`: the times of the rows of `s` that were taken, none of them late."""

    def __init__(self, seed: int, place: str) -> None:
        self.seed, self.chance = seed, Random(seed)
        self.delay = self.chance.choice((0, 5, 20, 60))
        self.joined = self.chance.random() < 0.3
        self.path = f"{place}/engine" if self.chance.random() < 0.2 else None
        self.sharing = self.chance.choice(("weave", "full", "none"))
        self.engine = pw.Engine(self.path, sharing=self.sharing)
        self.told: list[str] = []
        self.slides: dict[str, int] = {}
        self.good: list[int] = []
        self.watermark = LONG_AGO
        self.now = self.chance.choice((0, -100, 1000))
        self.tried = self.made = 0
        for name in ("s", "b") if self.joined else ("s",):
            self.execute(
                f"CREATE STREAM {name} (ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL {self.delay} SECONDS)"
            )

    def execute(self, text: str) -> None:
        self.told.append(text)
        self.engine.execute(text)

    def run(self) -> int:
        for _ in range(self.chance.randint(0, 2)):
            self.create()
        steps = [self.push] * 10 + [self.create] * 2 + [self.advance] * 2 + [self.flush, self.again, self.drop]
        if self.joined:
            steps += [self.push_other] * 3
        for _ in range(self.chance.randint(5, 30)):
            self.chance.choice(steps)()
        return self.tried

    # -- steps ---------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        slide = self.chance.choice((1, 1, 2, 5))
        select = self.chance.choice((*SELECTS, *((JOIN,) * 3 if self.joined else ())))
        name = f"q{self.made}"
        self.made += 1
        self.slides[name] = slide
        self.execute(
            f"CREATE QUERY {name} AS SELECT {select.format(range=self.chance.choice((1, 3, 10)), slide=slide)}"
        )
        self.engine.results(name)  # it may begin with what others hold

    def drop(self) -> None:
        if self.slides:
            name = self.chance.choice(sorted(self.slides))
            del self.slides[name]
            self.execute(f"DROP QUERY {name}")

    def again(self) -> None:
        self.told.append("-- again")
        if self.path is None:
            self.engine = pw.Engine.restore(self.engine.snapshot())
        else:
            self.engine.close(snapshot=self.chance.random() < 0.5)
            self.engine = pw.Engine(self.path, sharing=self.sharing)

    def times(self) -> list[int]:
        found = []
        for _ in range(self.chance.choice((1, 1, 1, 2, 4))):
            far = self.chance.random() < 0.15
            self.now += self.chance.randint(10, 90) if far else self.chance.choice((0, 1, 1, 3, 10))
            found.append(self.now - (self.chance.randint(0, self.delay) if self.chance.random() < 0.4 else 0))
        return found

    def push(self) -> None:
        times = self.times()
        good, watermark, bad = list(self.good), self.watermark, False
        for time in times:
            if time >= watermark:
                moved = max(watermark, max([*good, time]) - self.delay)
                bad = bad or moved - max(watermark, min([*good, time])) > self.reach
                good.append(time)
                watermark = moved
        taken = self.call(f"push s {times}", lambda: self.engine.push("s", rows_of(times)), len(times))
        if not self.joined:
            assert taken is not bad, self.failed(f"taken: {taken}, and too far: {bad}")
        if taken:
            self.good, self.watermark = good, watermark
        else:
            self.now = max(self.good, default=self.now)

    def push_other(self) -> None:
        times = [self.now - self.chance.randint(0, 40)]
        self.call(f"push b {times}", lambda: self.engine.push("b", rows_of(times)), 1)

    def advance(self) -> None:
        until = max(self.watermark, self.now - self.delay) + self.chance.choice((0, 2, 10, 30))
        bad = bool(self.good) and until - max(self.watermark, min(self.good)) > self.reach
        taken = self.call(f"advance {until}", lambda: self.engine.advance("s", until * SECOND), 1)
        if not self.joined:
            assert taken is not bad, self.failed(f"taken: {taken}, and too far: {bad}")
        if taken:
            self.watermark = max(self.watermark, until)
            self.now = max(self.now, until)

    def flush(self) -> None:
        if self.call("flush", self.engine.flush, 1):
            shown = self.engine.stats()["streams"]["s"]["watermark"]
            if shown is not None:
                self.watermark = max(self.watermark, seconds_of(shown))
                self.now = max(self.now, self.watermark)

    # -- what is judged ------------------------------------------------------------------------------------------------

    @property
    def reach(self) -> int:
        return MOST * min(self.slides.values(), default=10**9)

    def call(self, told: str, call: Callable[[], Any], moves: int) -> bool:
        """Whether it was taken; what it has closed is counted. `moves`: how often the watermark may have moved."""
        self.told.append(told)
        self.tried += 1
        problem = None
        try:
            call()
        except DataError as error:
            problem, self.told[-1] = error, f"{told}  -- refused"
        taken = problem is None
        assert taken or "windows of a query" in str(problem), self.failed(problem)
        for name in self.slides:
            ends = Counter(self.engine.results(name)["window_end"].to_pylist())
            most = moves * (MOST + 1) if taken else 0
            assert len(ends) <= most, self.failed(f"{len(ends)} windows of {name} were closed at once")
        return taken

    def failed(self, what: object) -> str:
        script = "\n".join(self.told)
        return f"seed {self.seed}: {what}\n{script}"


def rows_of(times: list[int]) -> list[dict[str, int]]:
    return [{"ts": time * SECOND, "v": time % 3} for time in times]


def seconds_of(shown: str) -> int:
    """An instant as `stats` shows it, which is a whole second here."""
    return instant_us(shown) // SECOND


def play(seed: int) -> int:
    """One script; returns how many calls were judged."""
    limit = window_limit.WINDOWS_CLOSED_MAX
    window_limit.WINDOWS_CLOSED_MAX = MOST
    try:
        with TemporaryDirectory() as place:
            script = Play(seed, place)
            try:
                return script.run()
            finally:
                script.engine.close(snapshot=False)
    finally:
        window_limit.WINDOWS_CLOSED_MAX = limit

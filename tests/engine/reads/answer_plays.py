"""Queries over two streams, and their answers by definition: of each row of an answer, when it enters and leaves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from panewise.engine.engine import Engine
from tests.engine.archives.archive_plays import SECOND, STREAM, Plain, listed

OTHER = STREAM.replace("STREAM t", "STREAM u")
NAMES = {"a": "anna", "b": "berta"}
Row = dict[str, Any]
Life = tuple[int, int, tuple[Any, ...]]  # from, to before, values
Lives = Callable[[list[Row], list[Row]], list[Life]]


def of_rows(rows: list[Row], seconds: int, offset: int = 0) -> list[tuple[int, int, Row]]:
    """Rows with their time in a window."""
    lives = [(row["ts"] + offset * SECOND, row) for row in rows]
    return [(birth, birth + seconds * SECOND, row) for birth, row in lives]


def selected(t: list[Row], u: list[Row]) -> list[Life]:
    return [(birth, death, (row["k"], row["v"])) for birth, death, row in of_rows(t, 10) if row["v"] % 3]


def delayed(t: list[Row], u: list[Row]) -> list[Life]:
    return [(birth, death, (row["k"], row["v"])) for birth, death, row in of_rows(t, 6, offset=4)]


def joined(t: list[Row], u: list[Row]) -> list[Life]:
    pairs = [(a, b) for a in of_rows(t, 10) for b in of_rows(u, 4) if a[2]["k"] == b[2]["k"] is not None]
    lives = [(max(a[0], b[0]), min(a[1], b[1]), (a[2]["k"], a[2]["v"], b[2]["v"])) for a, b in pairs]
    return [life for life in lives if life[0] < life[1]]


def united(t: list[Row], u: list[Row]) -> list[Life]:
    return [(birth, death, (row["k"], row["v"])) for birth, death, row in of_rows(t, 10) + of_rows(u, 4)]


def meeting(t: list[Row], u: list[Row]) -> list[Life]:
    """Pairs that stay when the row of `u`, whose window is INTERNAL, goes."""
    pairs = [(a, b) for a in of_rows(t, 10) for b in of_rows(u, 4) if a[2]["k"] == b[2]["k"] is not None]
    met = [(a, b) for a, b in pairs if max(a[0], b[0]) < min(a[1], b[1])]
    return [(max(a[0], b[0]), a[1], (a[2]["k"], a[2]["v"], b[2]["v"])) for a, b in met]


def named(t: list[Row], u: list[Row]) -> list[Life]:
    return [(b, d, (row["k"], NAMES[row["k"]], row["v"])) for b, d, row in of_rows(t, 10) if row["k"] in NAMES]


def keys_of(lives: Lives) -> Lives:
    return lambda t, u: [(birth, death, values[:1]) for birth, death, values in lives(t, u)]


JOIN = "t [RANGE 10 SECONDS] AS a JOIN u [RANGE 4 SECONDS] AS b ON a.k = b.k"
# The query, when its rows live, and whether equal rows count as one.
QUERIES: dict[str, tuple[str, Lives, bool]] = {
    "selection": ("SELECT k, v FROM t [RANGE 10 SECONDS] WHERE v % 3 <> 0", selected, False),
    "insertions": ("SELECT ISTREAM k, v FROM t [RANGE 10 SECONDS] WHERE v % 3 <> 0", selected, False),
    "the past": ("SELECT k, v FROM t [RANGE 6 SECONDS OFFSET 4 SECONDS]", delayed, False),
    "join": (f"SELECT a.k, a.v, b.v AS w FROM {JOIN}", joined, False),
    "internal": (f"SELECT a.k, a.v, b.v AS w FROM {JOIN.replace('4 SECONDS', '4 SECONDS INTERNAL')}", meeting, False),
    "union all": (
        "SELECT k, v FROM t [RANGE 10 SECONDS] UNION ALL SELECT k, v FROM u [RANGE 4 SECONDS]", united, False,
    ),
    "table": ("SELECT t.k, name, v FROM t [RANGE 10 SECONDS] JOIN names ON t.k = names.k", named, False),
    "distinct": ("SELECT DISTINCT k FROM t [RANGE 10 SECONDS]", keys_of(lambda t, u: united(t, [])), True),
    "union": ("SELECT k FROM t [RANGE 10 SECONDS] UNION SELECT k FROM u [RANGE 4 SECONDS]", keys_of(united), True),
    "distinct join": (f"SELECT DISTINCT a.k FROM {JOIN}", keys_of(joined), True),
}  # fmt: skip
TWO_STREAMS = ("join", "internal", "union all", "union", "distinct join")
# Queries that share their work with the ones above, and have other windows.
BESIDE = (
    f"CREATE QUERY wide AS SELECT a.k, b.v AS w FROM {JOIN.replace('10', '30').replace('4', '20')}",
    "CREATE QUERY values_of AS SELECT DISTINCT k FROM t [RANGE 30 SECONDS]",
)


class Play:
    """An engine, and lists of the rows that its two streams have taken."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.query, self.lives, self.once = QUERIES[name]
        self.plain = {"t": Plain(), "u": Plain()}
        self.reads = ("t", "u") if name in TWO_STREAMS else ("t",)

    def define(self, beside: bool, options: str = "") -> None:
        self.engine.execute(f"{STREAM}; {OTHER}; CREATE TABLE names (k STRING, name STRING) NON RETROACTIVE")
        self.engine.execute("CREATE TABLE changing (k STRING PRIMARY KEY, name STRING)")
        self.engine.execute("INSERT INTO names VALUES ('a', 'anna'), ('b', 'berta')")
        if beside:
            self.engine.execute("; ".join(BESIDE))
        self.engine.execute(f"CREATE QUERY q {options} AS {self.query}")

    def push(self, stream: str, batch: list[Row]) -> None:
        self.engine.push(stream, batch)
        self.plain[stream].push(batch)

    @property
    def now(self) -> int:
        """The last instant to which the query has come."""
        return min(self.plain[name].watermark for name in self.reads) - 1

    def alive(self, at: int) -> list[Life]:
        """By the definition, of the rows that have come."""
        lives = self.lives(self.plain["t"].rows, self.plain["u"].rows) if at > -(2**62) else []
        return [life for life in lives if life[0] <= at < life[1]]

    def answer(self, at: int) -> list[tuple[Any, ...]]:
        values = [values for _, _, values in self.alive(at)]
        return sorted(set(values) if self.once else values, key=repr)

    def archived(self, name: str = "a") -> list[tuple[Any, ...]]:
        table = self.engine.execute(f"SELECT * FROM {name}")
        assert table is not None and table.column_names[0] == "instant"
        return listed(table.drop_columns(["instant"]))

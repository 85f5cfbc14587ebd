"""Random lives of queries: scripts in which queries of every kind are created, suspended and dropped in mid-stream.

A script is a list of plain steps (statements, pushes, punctuations, lookups, restarts) over two streams and two tables.
Each script has a taste of its own (few groupings, selections and windows), so that its queries have much to share.
Doubles are multiples of a quarter, NaN or infinite: sums are exact, and multisets of them can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.engine.random_scripts import CONDITIONS, CONDITIONS_OF_GROUPS, EXACT, HELD, ROUNDED
from tests.soak.life_windows import SECOND, Side, Taste, Window

STREAMS = ("t", "u")
COLUMNS = "ts TIMESTAMP, k STRING, i INT, v BIGINT, x DOUBLE, w STRING, b BOOLEAN"
TABLES = {
    "tab": "CREATE TABLE tab (k STRING PRIMARY KEY, z BIGINT)",
    "fixed": "CREATE TABLE fixed (k STRING PRIMARY KEY, z BIGINT) NON RETROACTIVE",
}
TECHNIQUES = ("two_stacks", "flat_fat", "flat_fit", "panes", "daba", "l_int", "b_int", "psoup", "stairs", "recompute")
INVERTIBLE = ("r_int", "subtract_on_evict", "slick_deque_inv", "slick_deque", "materialize_all", "materialize_none")
FOREVER = 10**18

Row = dict[str, Any]
Step = tuple[Any, ...]


@dataclass(frozen=True)
class Query:
    """A query by the name that it has in the engine, which may come back after a DROP.

    `state`: of a query that shows differences, the text of what they are differences of. `settles_us`: how long after
    its creation in mid-stream its answers may depend on when that was. `own_past`: they do for ever, and on nothing
    else. `parted`: its partitions begin one by one. `opened_by`: of an ungrouped answer over several inputs, the
    windows of which one has to hold a row before there is a report.
    """

    name: str
    text: str
    inputs: tuple[str, ...]  # streams and tables, also those of the queries that it reads
    options: str = ""
    reads: tuple[str, ...] = ()
    state: str = ""
    settles_us: int = 0
    own_past: bool = False
    parted: bool = False
    grouped: bool = False
    readable: bool = False
    reach_us: int = 0
    inline: str = ""  # the subquery that stands in its FROM
    one_row: bool = False  # a report is one row, so that its rows have an order
    opened_by: tuple[Side, ...] = ()

    @property
    def statement(self) -> str:
        return f"CREATE QUERY {self.name}{self.options} AS {self.text}"


@dataclass(frozen=True)
class Script:
    """Queries by an identifier of their own; steps name them by it."""

    sharing: str = "weave"
    schedule: str = ""
    durable: bool = False
    behind: bool = False  # reports wait as long as the schedule allows
    small_steps: bool = False  # as many steps as there can be, each with few results
    archived: bool = False  # its streams have archives, with which queries may begin
    referred: str = ""  # the query that the reference answers too
    setup: dict[str, str] = field(default_factory=dict)  # statements that make a stream or a table, by its name
    queries: dict[str, Query] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()

    def closure(self, number: str) -> list[str]:
        """A query with those it reads, these first."""
        found: list[str] = []
        for inner in self.queries[number].reads:
            found += [other for other in self.closure(inner) if other not in found]
        return [*found, number]


class QueryWriter:
    """Writes queries after the taste of a script."""

    def __init__(self, chance: Random, long: bool) -> None:
        """`long`: windows may be far longer than the script."""
        self.chance = chance
        self.taste = Taste(chance, long)
        # Queries with one grouping and one selection are of one family, and share slices.
        self.groups = chance.sample(("", "k", "", "k", "k, b", "v % 3", "i"), chance.choice((1, 1, 2, 3)))
        self.conditions = chance.choice((["", "", *chance.sample(CONDITIONS, 2)], [""], chance.sample(CONDITIONS, 1)))
        pools = ((*EXACT, *ROUNDED, *ROUNDED), EXACT, (*EXACT[:6], *HELD))
        self.aggregates = chance.sample(chance.choice(pools), 6)

    def query(self, name: str, readable: dict[str, Query]) -> Query:
        kinds = [(12, self._aggregate), (5, self._selection), (3, self._difference), (1, self._restore)]
        kinds += [(2, self._internal), (4, self._inline), (5, self._relation), (2, self._table), (1, self._lookup)]
        kinds += [(1, self._technique), (3 if readable else 0, lambda: self._over(readable))]
        write = self.chance.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]
        return replace(write(), name=name)

    def _aggregate(self, window: Window | None = None, word: str = "", choices: tuple[str, ...] = ()) -> Query:
        chance = self.chance
        window = window or self.taste.window(chance)
        pool = [a for a in choices or self.aggregates if self._admits(a, window, word)] or list(EXACT[:6])
        chosen = chance.sample(pool, min(len(pool), chance.choice((1, 1, 2, 3))))
        items = [f"{aggregate} AS a{at}" for at, aggregate in enumerate(chosen)]
        readable = window.periodic and not window.offset and not choices and "STREAM" not in word
        items += ["COUNT(*) AS n"] if readable else []
        group = chance.choice(self.groups)
        if window.partition and chance.random() < 0.6:
            group = window.partition
        names = [f"{part} AS g{at}" for at, part in enumerate(group.split(", "))] if group else []
        stream = chance.choices(STREAMS, (5, 1))[0]
        condition = chance.choice(self.conditions)
        having = chance.choice(("", "", *CONDITIONS_OF_GROUPS)) if not choices else ""
        rest = f"{', '.join(names + items)} FROM {stream} {window}" + (f" WHERE {condition}" if condition else "")
        rest += (f" GROUP BY {group}" if group else "") + (f" HAVING {having}" if having else "")
        return Query(
            "", f"SELECT {word}{rest}", (stream,), state=self._state(word, window, rest), parted=bool(window.partition),
            grouped=bool(group), readable=readable, reach_us=window.reach_us,
            one_row=not group and not having and not window.rows,
        )  # fmt: skip

    @staticmethod
    def _admits(aggregate: str, window: Window, word: str) -> bool:
        if aggregate in ROUNDED:
            return window.periodic and not word and not window.internal
        ranged = window.periodic and not window.unbounded and not window.partition and "RESTORE" not in word
        return aggregate not in HELD or ranged

    @staticmethod
    def _state(word: str, window: Window, rest: str) -> str:
        if "RESTORE" in word:
            return ""
        if "ISTREAM" in word and window.periodic:
            return f"SELECT {word.replace('ISTREAM', 'RSTREAM')}{rest}"
        if window.internal:
            return f"SELECT {'RSTREAM ' if window.periodic else ''}{rest}".replace(" INTERNAL", "")
        return f"SELECT {rest}" if "ISTREAM" in word else ""

    def _selection(self, window: Window | None = None, word: str = "") -> Query:
        chance = self.chance
        window = window or self.taste.window(chance)
        stream = chance.choices(STREAMS, (5, 1))[0]
        condition = chance.choice(self.conditions)
        rest = f"{chance.choice(('*', 'k, v', 'v', 'x, w', 'v % 2 AS parity, b'))} FROM {stream} {window}"
        rest += f" WHERE {condition}" if condition else ""
        state, parted = self._state(word, window, rest), bool(window.partition)
        # Each row is a result by itself: a selection over all rows begins with those that come.
        own = window.unbounded and not window.rows
        return Query("", f"SELECT {word}{rest}", (stream,), state=state, own_past=own, parted=parted, grouped=True)

    def _difference(self) -> Query:
        word = self.chance.choice(("ISTREAM ", "DSTREAM "))
        return self.chance.choice((self._aggregate, self._selection))(self.taste.window(self.chance), word)

    def _restore(self) -> Query:
        word = self.chance.choice(("ISTREAM RESTORE ", "RSTREAM RESTORE "))
        window = self.taste.time_window(self.chance, periodic=True)
        return self.chance.choice((self._aggregate, self._selection))(window, word)

    def _internal(self) -> Query:
        window = replace(self.taste.window(self.chance), internal=True, partition="")
        return self.chance.choice((self._aggregate, self._selection))(window)

    def _technique(self) -> Query:
        chance = self.chance
        name = chance.choice(TECHNIQUES + INVERTIBLE)
        exact = ("SUM(v)", "COUNT(*)", "COUNT(v)", "SUM(i)")
        choices = exact if name in INVERTIBLE else (*exact, "MAX(x)", "MIN(w)", "FIRST(v)", "AVG(v)", "SUM(x)")
        window = chance.choice((self.taste.time_window, self.taste.time_window, self.taste.row_window))(chance, True)
        found = self._aggregate(replace(window, partition=""), choices=choices)
        return replace(found, options=f" WITH (technique = '{name}')")

    def _lookup(self) -> Query:
        periodic = self.chance.random() < 0.3  # which is refused: a query in that mode reports nothing
        window = self.chance.choice((self.taste.time_window, self.taste.row_window))(self.chance, periodic)
        kind = self.chance.choice((self._aggregate, self._aggregate, self._selection))
        return replace(kind(window), options=" WITH (mode = 'lookup')", readable=False)

    def _over(self, readable: dict[str, Query]) -> Query:
        number = self.chance.choice(sorted(readable))
        inner = readable[number]
        found = self._outer(inner, inner.name)
        return replace(found, reads=(number,))

    def _inline(self) -> Query:
        window = self.taste.time_window(self.chance, periodic=True)
        if self.chance.random() < 0.3:
            inner = replace(self._aggregate(replace(window, offset=0, internal=True)), readable=True)
        else:
            inner = self._aggregate(replace(window, offset=0))
        return replace(self._outer(inner, f"({inner.text})"), inline=inner.text)

    def _outer(self, inner: Query, source: str) -> Query:
        chance = self.chance
        window = self.taste.time_window(chance, periodic=chance.random() < 0.7)
        if inner.one_row and chance.random() < 0.3:
            window = replace(self.taste.row_window(chance, chance.random() < 0.6), partition="")
        window = replace(window, internal=chance.random() < 0.4)
        if chance.random() < 0.45:
            rest = f"{chance.choice(('n', 'n, n % 2 AS parity'))} FROM {source} {window}"
            return self._over_text(inner, window, rest, grouped=True)
        group = chance.choice(("", "g0")) if inner.grouped else ""
        items = chance.sample(("SUM(n) AS s", "MAX(n) AS m", "COUNT(*) AS c", "MIN(n) AS l"), chance.choice((1, 2)))
        rest = f"{', '.join([*([group] if group else []), *items])} FROM {source} {window}"
        rest += f" GROUP BY {group}" if group else ""
        return self._over_text(inner, window, rest, grouped=bool(group))

    def _over_text(self, inner: Query, window: Window, rest: str, grouped: bool) -> Query:
        state = self._state("", window, rest)
        # As a selection over all rows, one over all results begins with those that come. And nobody knows whether there
        # was a result before, so that a total of none is an answer and not nothing.
        total = not grouped and not window.periodic
        settles = FOREVER if window.unbounded else inner.reach_us + window.reach_us + 30 * SECOND if total else 0
        return Query("", f"SELECT {rest}", inner.inputs, state=state, settles_us=settles, grouped=grouped)

    # -- several inputs ----------------------------------------------------------------------------------------------

    def _relation(self) -> Query:
        chance = self.chance
        slide = chance.choice((None, None, 1, 2, 3, 10))
        sides: list[Side] = []

        def source(alias: str) -> str:
            sides.append(self.taste.side_window(chance, chance.choice(STREAMS), slide))
            return f"{sides[-1]} AS {alias}"

        word = chance.choice(("", "", "", "ISTREAM ", "DSTREAM "))
        keys = chance.choice(("a.k = c.k", "a.k = c.k", "a.k = c.k AND a.v < c.v", "a.w = c.w"))
        kinds = ("join", "join", "group", "count", "count", "distinct", "exists", "except", "union", "three")
        kind = chance.choice(kinds)
        inner = chance.choice(("NOT EXISTS", "EXISTS"))
        match kind:
            case "join":
                rest = f"a.k, a.v, c.v AS o FROM {source('a')}, {source('c')} WHERE {keys}"
            case "three":
                rest = f"a.v, d.w FROM {source('a')}, {source('c')}, {source('d')} WHERE {keys} AND c.k = d.k"
            case "group":
                items = chance.choice(("COUNT(*) AS n, SUM(c.v) AS s", "MAX(c.v) AS m, MIN(a.w) AS l"))
                rest = f"a.k, {items} FROM {source('a')}, {source('c')} WHERE {keys} GROUP BY a.k"
            case "count":
                rest = f"COUNT(*) AS n, MAX(a.v) AS m FROM {source('a')}, {source('c')} WHERE {keys}"
            case "distinct":
                rest = f"DISTINCT {chance.choice(('k', 'k, b', 'v'))} FROM {source('a')}"
            case "exists":
                items = chance.choice(("a.k, a.v", "COUNT(*) AS n"))
                rest = f"{items} FROM {source('a')} WHERE {inner} (SELECT 1 FROM {source('c')} WHERE c.k = a.k)"
            case _:
                operation = chance.choice(("EXCEPT", "EXCEPT ALL") if kind == "except" else ("UNION", "UNION ALL"))
                column = chance.choice("kvw")
                rest = f"{column} FROM {source('a')} {operation} SELECT {column} FROM {source('c')}"
                word = ""
        word = "" if word and kind == "distinct" else word
        return self._of_inputs(word, rest, slide, sides, grouped=not rest.startswith("COUNT"))

    @staticmethod
    def _of_inputs(word: str, rest: str, slide: int | None, sides: list[Side], grouped: bool, table: str = "") -> Query:
        state = "" if not word.startswith("I") else f"SELECT {'RSTREAM ' if slide else ''}{rest}"
        used = dict.fromkeys([*(side.stream for side in sides), *([table] if table else [])])
        opened_by = tuple(sides) if slide and not word and not grouped else ()
        return Query("", f"SELECT {word}{rest}", tuple(used), state=state, grouped=grouped, opened_by=opened_by)

    def _table(self) -> Query:
        chance = self.chance
        slide = chance.choice((None, None, 1, 2, 10))
        side = self.taste.side_window(chance, chance.choice(STREAMS), slide, rows=False)
        table = chance.choice(sorted(TABLES))
        tail = f"FROM {side} AS a, {table} AS r WHERE a.k = r.k"
        counted = f"COUNT(*) AS n, SUM(r.z) AS s {tail}"
        rest = chance.choice((f"a.k, a.v, r.z {tail}", f"r.z, COUNT(*) AS n {tail} GROUP BY r.z", counted))
        return self._of_inputs(chance.choice(("", "", "ISTREAM ")), rest, slide, [side], rest != counted, table)

"""Random statements of CQL: every statement, every clause, nested two deep, over what a catalog holds.

The words come from the language package: kinds of definitions, options and their values, units, types, functions,
aggregates and techniques. `tests/soak/test_statements.py` checks that every node of the syntax tree, every argument of
those nodes and every pair of clauses of SELECT is made. Most statements are valid as far as the binder can see, so that
they reach the planner and the operators.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from panewise.catalog import Catalog, SinkDefinition
from panewise.language.bind.bind_options import _CHOICES, _COUNTS, _DURATIONS, ALTERABLE, KNOWN
from panewise.language.parse.parse_select import EMIT_WORDS
from panewise.language.parse.parse_statements import SHOWN_KINDS
from panewise.language.sql_text import name_to_sql
from panewise.synopses.techniques import TECHNIQUES
from tests.soak.expression_grammar import LITERALS, TYPES, Expressions, Known, kind_of

SLIDES = ("1 SECOND", "2 SECONDS", "3 s", "'1500 ms'", "1 MINUTE")
RANGES = (*SLIDES, "5 SECONDS", "10 SECONDS", "1 MINUTE 30 SECONDS", "1.5 h", "1 MICROSECOND", "1 DAY", "2 W")
ALIGNMENTS = ("'2026-01-05'", "'1970-01-01 00:00:00.5'", "'0001-01-01'")
NO_SLIDE = "none"
SET_WEIGHTS = (4, 4, 4, 4, 1, 1)
SET_WORDS = ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
LAYOUT_TEXTS = ("4x4", "chronological 2x3", "wave by insertion 4", "wave by expiration 3", "by cost", "none")


@dataclass
class Scope:
    """The columns of the inputs of one SELECT, and what its windows have in common."""

    aliases: list[str] = field(default_factory=list)
    columns: list[Known] = field(default_factory=list)
    slide: str | None = None
    windowed: bool = False


class Grammar:
    """Statements about one catalog, which may change between them. `folder`: where files may be written."""

    def __init__(self, dice: random.Random, catalog: Catalog, folder: str | None = None) -> None:
        self.dice = dice
        self._catalog = catalog
        self._folder = folder
        self.expressions = Expressions(dice)
        self._aliases = 0
        self._names = 0

    # ---- statements ----------------------------------------------------------------------------------------------

    def statement(self) -> str:
        """Any statement."""
        makers = {
            self.create_query: 50,
            self.select_once: 14,
            self.explain: 6,
            self.create_stream: 3,
            self.create_table: 3,
            self.create_sink: 2,
            self.create_archive: 2 if self._folder is not None else 0,
            self.drop: 4,
            self.suspend_or_resume: 4,
            self.alter: 4,
            self.show: 1,
            self.insert: 4,
            self.update: 3,
            self.delete: 2,
        }
        [maker] = self.dice.choices([*makers], [*makers.values()])
        return maker()

    def create_query(self) -> str:
        options = self._options("query") if self.dice.random() < 0.2 else ""
        return f"CREATE QUERY {self._new_name('query')}{options} AS {self.query(2)}"

    def select_once(self) -> str:
        return self.query(2)

    def explain(self) -> str:
        return self.dice.choice(
            ["EXPLAIN PLAN", f"EXPLAIN QUERY {self._existing('query')}", f"EXPLAIN {self.query(2)}"]
        )

    def create_stream(self) -> str:
        columns = [f"ts TIMESTAMP{self._rarely(' PRIMARY KEY')}", *self._declared()]
        if self.dice.random() < 0.5:
            delay = self._often(f" AS ts{self._often(f' - INTERVAL {self.dice.choice(RANGES)}')}")
            columns.append(f"WATERMARK FOR ts{delay}")
        self.dice.shuffle(columns)
        options = self._options("stream") if self.dice.random() < 0.5 else ""
        return f"CREATE STREAM {self._new_name('stream')} ({', '.join(columns)}){options}"

    def create_table(self) -> str:
        inline = self.dice.random() < 0.5
        columns = [f"k STRING{' PRIMARY KEY' if inline else ''}", *self._declared()]
        if not inline and self.dice.random() < 0.5:
            columns.append("PRIMARY KEY (k)")
        retroactive = self.dice.choice(["", " NON RETROACTIVE"])
        options = self._options("table") if self.dice.random() < 0.2 else ""
        return f"CREATE TABLE {self._new_name('table')} ({', '.join(columns)}){retroactive}{options}"

    def create_sink(self) -> str:
        path = f"{self._folder}/sink{self._names}" if self._folder is not None else "sink"
        return (
            f"CREATE SINK {self._new_name('sink')} FROM {self._existing('query')} "
            f"WITH (connector = '{self.dice.choice(['parquet', 'json', 'console', 'none'])}', path = '{path}')"
        )

    def create_archive(self) -> str:
        source = self._existing(self.dice.choice(["query", "stream"]))
        found = self._catalog.find(source)
        names = [] if found is None or isinstance(found, SinkDefinition) else [column.name for column in found.schema]
        key = ", ".join(self.dice.sample(names, min(len(names), self.dice.choice([1, 1, 2]))))
        lifetime = self.dice.choice(["1 minute", "10 seconds", "1 hour", "own"])
        options = [f"path = '{self._folder}/archive{self._names}'", f"key = '{key}'", f"lifetime = '{lifetime}'"]
        options += self.dice.sample(
            [
                f"every = '{self.dice.choice(['5 seconds', '1 minute'])}'",
                f"layout = '{self.dice.choice(LAYOUT_TEXTS)}'",
                f"update = '{self.dice.choice(_CHOICES['update'])}'",
            ],
            self.dice.randint(0, 3),
        )
        return f"CREATE ARCHIVE {self._new_name('archive')} FROM {source} WITH ({', '.join(options)})"

    def drop(self) -> str:
        kind = self.dice.choice(["query", "query", "query", "stream", "table", "sink", "archive"])
        exists = self.dice.choice(["", "IF EXISTS "])
        return f"DROP {kind.upper()} {exists}{self._existing(kind)}"

    def suspend_or_resume(self) -> str:
        return f"{self.dice.choice(['SUSPEND', 'RESUME'])} QUERY {self._existing('query')}"

    def alter(self) -> str:
        kind = self.dice.choice(["stream", "stream", "archive"])
        names = self.dice.sample(ALTERABLE[kind], min(len(ALTERABLE[kind]), self.dice.randint(1, 2)))
        if self.dice.random() < 0.05:
            names = [self.dice.choice(KNOWN[kind])]
        written = ", ".join(f"{name} = {self._option_value(name)}" for name in names)
        return f"ALTER {kind.upper()} {self._existing(kind)} SET ({written})"

    def show(self) -> str:
        return f"SHOW {self.dice.choice(SHOWN_KINDS)}"

    def insert(self) -> str:
        name, columns = self._table()
        chosen = [column for column in columns if self.dice.random() < 0.9] or columns
        listed = f" ({', '.join(column.text for column in chosen)})" if len(chosen) < len(columns) else ""
        rows = [
            f"({', '.join(self.expressions.of_kind(column.kind, (), 0) for column in chosen)})"
            for _ in range(self.dice.randint(1, 3))
        ]
        return f"INSERT INTO {name}{listed} VALUES {', '.join(rows)}"

    def update(self) -> str:
        name, columns = self._table()
        changed = self.dice.sample(columns, min(len(columns), self.dice.randint(1, 2)))
        written = [f"{column.text} = {self.expressions.of_kind(column.kind, columns, 1)}" for column in changed]
        return f"UPDATE {name} SET {', '.join(written)}{self._where_of(columns)}"

    def delete(self) -> str:
        name, columns = self._table()
        return f"DELETE FROM {name}{self._where_of(columns)}"

    # ---- queries -------------------------------------------------------------------------------------------------

    def query(self, depth: int, kinds: list[str] | None = None, grows: bool = False, slide: str = "") -> str:
        """A SELECT or a set operation. `kinds`: of its items, where they must be such; `grows`: its results are to be a
        stream; `slide`: that of its windows."""
        dice = self.dice
        slide = slide or (dice.choice(SLIDES) if dice.random() < 0.55 else NO_SLIDE)
        if depth and dice.random() < 0.15:
            kinds = kinds or [dice.choice([*LITERALS]) for _ in range(dice.randint(1, 2))]
            left, right = (self.query(depth - 1, kinds, grows, slide) for _ in range(2))
            operation = f"{left} {dice.choices(SET_WORDS, SET_WEIGHTS)[0]} {right}"
            return f"({operation})" if dice.random() < 0.2 else operation
        select = self.select(depth, kinds, grows, slide)
        return f"({select})" if dice.random() < 0.05 else select

    def select(
        self,
        depth: int,
        kinds: list[str] | None = None,
        grows: bool = False,
        slide: str = "",
        outer: Scope | None = None,
    ) -> str:
        """One SELECT; `outer`: it stands in EXISTS of that one."""
        dice = self.dice
        scope = Scope(slide=None if slide == NO_SLIDE else slide)
        inputs = self._inputs(scope, depth)
        emit = self._emit(scope, grows) if outer is None or dice.random() < 0.02 else ""
        grouped = [self._grouping(scope) for _ in range(dice.randint(1, 2))] if dice.random() < 0.3 else []
        if outer is not None and dice.random() < 0.9:
            grouped = []
        aggregated = bool(grouped) or dice.random() < (0.3 if outer is None else 0.03)
        distinct = (
            dice.choice(["DISTINCT ", "DISTINCT ", "ALL "]) if dice.random() < (0.12 if outer is None else 0.02) else ""
        )
        items, aliases = self._items(scope, depth, kinds, grouped, aggregated)
        text = f"SELECT {emit}{distinct}"
        text += f"({items})" if emit and dice.random() < 0.1 else items
        text += f" FROM {inputs}{self._where(scope, depth, outer)}"
        if grouped:
            text += f" GROUP BY {', '.join(self._group_text(g, n, aliases) for n, g in enumerate(grouped))}"
        if dice.random() < (0.25 if aggregated else 0.02):
            text += f" HAVING {self._having(scope, grouped, aliases)}"
        return text

    def _emit(self, scope: Scope, grows: bool) -> str:
        dice = self.dice
        if not (grows and scope.slide is None) and dice.random() < 0.6:
            return ""
        if dice.random() < 0.05:
            word = dice.choice(EMIT_WORDS)
        elif scope.windowed:
            word = dice.choice([word for word in EMIT_WORDS if word != "RSTREAM" or scope.slide is not None])
        else:
            return ""
        restores = 0.03 if word == "DSTREAM" or scope.slide is None else 0.25
        restore = dice.choice([" RESTORE", "-RESTORE"]) if dice.random() < restores else ""
        return f"{word}{restore} "

    def _inputs(self, scope: Scope, depth: int) -> str:
        dice = self.dice
        text = self._from_item(scope, depth)
        for _ in range(dice.choices([0, 1, 2], [62, 30, 8])[0]):
            before = list(scope.columns)
            item = self._from_item(scope, depth)
            new = scope.columns[len(before) :]
            match dice.randrange(20) if dice.random() < 0.5 else 9:
                case 0:
                    text += f", {item}"
                case 1:
                    text += f" CROSS JOIN {item}"
                case 2:
                    side = dice.choice(["LEFT", "RIGHT", "FULL"])
                    text += f" {side}{dice.choice(['', ' OUTER'])} JOIN {item} ON {self._on(before, new)}"
                case 3:
                    names = {column.text.rpartition(".")[2] for column in before}
                    common = [c.text.rpartition(".")[2] for c in new if c.text.rpartition(".")[2] in names]
                    text += f" JOIN {item} USING ({dice.choice(common or ['k'])})"
                case _:
                    text += f"{dice.choice(['', ' INNER'])} JOIN {item} ON {self._on(before, new)}"
        return text

    def _on(self, before: list[Known], new: list[Known]) -> str:
        pairs = [(a.text, b.text) for a in before for b in new if a.kind == b.kind]
        parts = [" = ".join(self.dice.choice(pairs))] if pairs and self.dice.random() < 0.9 else []
        if not parts or self.dice.random() < 0.2:
            parts.append(self.expressions.of_kind("bool", [*before, *new], 1))
        return " AND ".join(parts)

    def _from_item(self, scope: Scope, depth: int) -> str:
        dice = self.dice
        self._aliases += 1
        alias = f"i{self._aliases}"
        if depth and dice.random() < 0.22:
            kinds = [dice.choice([*LITERALS]) for _ in range(dice.randint(1, 2))]
            windowed = dice.random() < 0.9
            inner = self.query(depth - 1, kinds, windowed, dice.choice([scope.slide or NO_SLIDE, ""]))
            known = [Known(f"{alias}.c{number}", kind) for number, kind in enumerate(kinds)]
            if dice.random() < 0.3:
                known.append(Known(f"{alias}.{dice.choice(['window_start', 'window_end', 'instant'])}", "time"))
            window = self._window(scope, [f"c{number}" for number in range(len(kinds))]) if windowed else ""
            source = f"({inner})"
        else:
            first = not scope.aliases
            kind = dice.choices(["stream", "query", "table", "archive"], [80, 15, 4, 1] if first else [65, 12, 22, 1])[
                0
            ]
            name = self._existing(kind)
            found = self._catalog.find(name)
            columns = [] if found is None or isinstance(found, SinkDefinition) else list(found.schema)
            known = [Known(f"{alias}.{name_to_sql(c.name)}", kind_of(c.type)) for c in columns]
            chance = 0.95 if kind in ("stream", "query") else 0.02
            window = self._window(scope, [c.name for c in columns]) if dice.random() < chance else ""
            source = name
        scope.aliases.append(alias)
        scope.columns += known
        if dice.random() < 0.02:  # an alias of its own, which the columns do not know
            return f"{source}{window}"
        word = dice.choice(["AS ", ""])
        return f"{source} {word}{alias}{window}" if dice.random() < 0.5 else f"{source}{window} {word}{alias}"

    def _window(self, scope: Scope, names: list[str]) -> str:
        """Brackets after an input; the windows of one SELECT mostly slide alike."""
        dice = self.dice
        rows = dice.random() < 0.2
        parts = []
        if rows:
            if names and dice.random() < 0.3:
                chosen = dice.sample(names, min(len(names), dice.randint(1, 2)))
                parts.append(f"PARTITION BY {', '.join(map(name_to_sql, chosen))}")
            parts.append(f"ROWS {dice.choice([1, 2, 3, 10, 1000])}")
        else:
            kind = dice.choices(["range", "NOW", "UNBOUNDED", "RANGE UNBOUNDED", "RANGE NOW"], [76, 8, 12, 2, 2])[0]
            parts.append(f"RANGE {dice.choice(RANGES)}" if kind == "range" else kind)
        slides = (scope.slide is not None) is (dice.random() < 0.97)
        if rows and scope.columns and slides and dice.random() < 0.9:
            slides = False  # beside other inputs rows are not counted
        if slides:
            parts.append(f"SLIDE {dice.choice([1, 2, 3])}" if rows else f"SLIDE {scope.slide or dice.choice(SLIDES)}")
            if dice.random() < 0.04:
                parts.append(f"ALIGN {dice.choice(ALIGNMENTS)}")
        if dice.random() < 0.12:
            parts.append(f"OFFSET {dice.choice([0, 1, 2])}" if rows else f"OFFSET {dice.choice(RANGES)}")
        if dice.random() < 0.12:
            parts.append("INTERNAL")
        scope.windowed = True
        return f" [{' '.join(parts)}]"

    def _items(
        self, scope: Scope, depth: int, kinds: list[str] | None, grouped: list[Known], aggregated: bool
    ) -> tuple[str, list[str]]:
        """The list of items, named c0, c1, ..., and the names."""
        dice = self.dice
        if kinds is None and not aggregated and dice.random() < 0.2:
            return dice.choice(["*", f"{dice.choice(scope.aliases)}.*"]), []
        items = []
        for kind in kinds or [dice.choice([*LITERALS]) for _ in range(dice.randint(1, 3))]:
            if not aggregated:
                items.append(self.expressions.of_kind(kind, scope.columns, depth))
                continue
            group = [known.text for known in grouped if known.kind == kind]
            aggregate = self.expressions.aggregate(kind, scope.columns)
            items.append(dice.choice(group) if group and dice.random() < 0.6 else aggregate)
            if dice.random() < 0.05:
                inner = Scope(slide=scope.slide)
                items[-1] = f"MAX(WSTREAM({items[-1]}){self._window(inner, []).strip()})"
        if kinds is None and dice.random() < 0.03:
            inner = Scope(slide=scope.slide)
            listed = ", ".join(f"{item} AS c{number}" for number, item in enumerate(items))
            return f"WSTREAM({listed}){self._window(inner, []).strip()}", []
        names = [f"c{number}" for number in range(len(items))]
        return ", ".join(
            f"{item}{dice.choice([' AS', ''])} {name}" for item, name in zip(items, names, strict=True)
        ), names

    def _grouping(self, scope: Scope) -> Known:
        kind = self.dice.choice([*LITERALS])
        fitting = [column for column in scope.columns if column.kind == kind]
        if fitting and self.dice.random() < 0.7:
            return self.dice.choice(fitting)
        return Known(self.expressions.of_kind(kind, scope.columns, 1), kind)

    def _group_text(self, grouped: Known, number: int, aliases: list[str]) -> str:
        if self.dice.random() < 0.02 and aliases:
            return self.dice.choice([str(number + 1), self.dice.choice(aliases)])
        return grouped.text

    def _having(self, scope: Scope, grouped: list[Known], aliases: list[str]) -> str:
        kind = self.dice.choice(["whole", "number", "text"])
        left = self.expressions.aggregate(kind, scope.columns)
        if aliases and self.dice.random() < 0.1:
            left = self.dice.choice(aliases)
        condition = f"{left} {self.dice.choice(['>', '<>', '<='])} {self.expressions.of_kind(kind, grouped, 0)}"
        return condition if self.dice.random() < 0.8 else f"NOT ({condition}) OR {condition}"

    def _where(self, scope: Scope, depth: int, outer: Scope | None) -> str:
        dice = self.dice
        parts = [self.expressions.of_kind("bool", scope.columns, 2)] if dice.random() < 0.3 else []
        if outer is not None and dice.random() < 0.9:
            pairs = [(a.text, b.text) for a in outer.columns for b in scope.columns if a.kind == b.kind]
            if pairs:
                first, second = dice.choice(pairs)
                parts.append(f"{first} {'=' if dice.random() < 0.9 else '<'} {second}")
        if depth and dice.random() < (0.12 if outer is None else 0.04):
            negated = dice.choice(["", "NOT "])
            inner = self.select(depth - 1, None, False, scope.slide or NO_SLIDE, scope)
            parts.append(f"{negated}EXISTS ({inner})")
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    # ---- names, columns and options ------------------------------------------------------------------------------

    def _new_name(self, kind: str) -> str:
        self._names += 1
        if self.dice.random() < 0.03:
            return self._existing(kind)
        exists = "IF NOT EXISTS " if self.dice.random() < 0.05 else ""
        name = f"n{self._names}" if self.dice.random() < 0.9 else f'"n {self._names}"'
        return exists + name

    def _existing(self, kind: str) -> str:
        names = [definition.name for definition in self._catalog.of_kind(kind)]
        if not names or self.dice.random() < 0.01:
            return self.dice.choice(["nothing", *(name_to_sql(definition.name) for definition in self._catalog)])
        return name_to_sql(self.dice.choice(names))

    def _table(self) -> tuple[str, list[Known]]:
        name = self._existing("table")
        found = self._catalog.find(name)
        if found is None or isinstance(found, SinkDefinition):
            return name, [Known("k", "text")]
        return name, [Known(name_to_sql(column.name), kind_of(column.type)) for column in found.schema]

    def _where_of(self, columns: list[Known]) -> str:
        return f" WHERE {self.expressions.of_kind('bool', columns, 1)}" if self.dice.random() < 0.8 else ""

    def _declared(self) -> list[str]:
        types = self.dice.sample(TYPES, self.dice.randint(1, 4))
        return [
            f"{'v' if number else self.dice.choice(['a', 'v0'])}{number} {type_}" for number, type_ in enumerate(types)
        ]

    def _options(self, kind: str) -> str:
        names = self.dice.sample(KNOWN[kind], self.dice.randint(1, 2))
        if kind == "stream" and "shedding" in names and self.dice.random() < 0.8:
            names = [*dict.fromkeys([*names, "max_rate"])]
        names = [name for name in names if name not in ("connector", "path") or self.dice.random() < 0.1]
        written = [f"{name} = {self._option_value(name)}" for name in names]
        if self.dice.random() < 0.01:
            written.append(self.dice.choice(["'c d' = TRUE", "a.b = -3.5", "nothing = 1"]))
        return f" WITH ({', '.join(written)})" if written else ""

    def _option_value(self, name: str) -> str:
        dice = self.dice
        if dice.random() < 0.02:
            return dice.choice(["1", "-1", "TRUE", "''", "'nonsense'", "1e9"])
        if name in _CHOICES:
            return f"'{dice.choice(_CHOICES[name])}'"
        if name in _DURATIONS:
            return f"'{dice.choice(['30 seconds', '1 h', '0 s', '10 ms'])}'"
        if name in _COUNTS:
            return dice.choice(["1", "10", "100000"])
        values = {
            "technique": [f"'{technique}'" for technique in TECHNIQUES],
            "connector": ["'parquet'", "'csv'", "'generator'", "'nothing'"],
            "path": ["'nowhere'"],
            "changes": [f"'{self._existing('stream')}'"],
            "operation": ["'k'", "'op'"],
            "keep": ["'a > 1'", "'k = ''a'''", "'nothing'"],
            "layout": [f"'{text}'" for text in LAYOUT_TEXTS],
        }
        return dice.choice(values.get(name, ["'x'"]))

    def _rarely(self, text: str) -> str:
        return text if self.dice.random() < 0.02 else ""

    def _often(self, text: str) -> str:
        return text if self.dice.random() < 0.7 else ""

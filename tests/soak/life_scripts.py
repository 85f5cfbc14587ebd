"""Random scripts of the lives of queries (see `lives`), how they are told, and how a failing one is made smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from panewise.engine.consumers.report_schedule import DEFAULT
from tests.soak.life_players import SMALL_STEPS, archive_of
from tests.soak.life_windows import SECOND
from tests.soak.lives import COLUMNS, STREAMS, TABLES, Query, QueryWriter, Row, Script, Step

BASES = (0, 0, -30 * SECOND, 1_700_000_000 * SECOND)
ENDS = (12 * SECOND, 12 * SECOND, 100 * SECOND)  # how far beyond the last row all streams go in the end
PLAYS_MAX = 600  # for making one script smaller


class ScriptWriter:
    """One random script."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.flushes = chance.random() < 0.2  # at the end, as far as windows reach, which is not as far beside others
        self.writer = QueryWriter(chance, long=not self.flushes)
        self.queries: dict[str, Query] = {}
        self.steps: list[Step] = []
        self.running: dict[str, bool] = {}  # the queries that are there, and whether they run
        self.now = chance.choice(BASES)
        self.nulls = chance.choice((0.0, 0.1, 0.3))
        self.late = chance.choice((0.0, 0.0, 0.1))
        self.jumps = chance.choice((0.0, 0.03))
        self.eager = chance.choice((0.0, 0.3, 1.0))  # how often rows are processed as soon as they are pushed
        self.only_t = chance.random() < 0.4
        self.restarts = chance.choice((0.0, 0.0, 0.25))
        self.archived = self.restarts == 0 and chance.random() < 0.06
        self.durable = self.restarts > 0 and chance.random() < 0.4

    def script(self) -> Script:
        chance = self.chance
        delay = chance.choice((0, 2, 2, 6))
        retain = chance.choice(("", "", "", " WITH (retain = '5 seconds')", " WITH (retain = '1 minute')"))
        created = f"CREATE STREAM {{}} ({COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL {delay} SECONDS){retain}"
        setup = {name: created.format(name) for name in STREAMS}
        setup |= {name: f"{made}; INSERT INTO {name} VALUES ('a', 1), ('b', 2)" for name, made in TABLES.items()}
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            self._create()
        for _ in range(chance.randint(3, 9)):
            self._turn()
        end = self.now + chance.choice(ENDS)
        if self.flushes:
            self.steps.append(("flush",))
            end = self.now + max(ENDS)
        self.steps += [("advance", stream, end) for stream in STREAMS]
        schedule = chance.choice((DEFAULT,) * 3 + ("late-pending", "earliest-deadline"))
        sharing = chance.choice(("weave", "weave", "full", "none"))
        referred = chance.choice(sorted(self.queries) or [""]) if chance.random() < 0.3 else ""
        found = Script(sharing, schedule, self.durable, archived=self.archived, referred=referred, setup=setup)
        behind = chance.random() < 0.2
        found = replace(found, behind=behind, queries=self.queries, steps=tuple(self.steps))
        return replace(found, small_steps=chance.random() < 0.4)

    def _turn(self) -> None:
        chance, steps = self.chance, self.steps
        for _ in range(chance.choice((1, 1, 2, 3))):
            stream = "t" if self.only_t else chance.choices(STREAMS, (2, 1))[0]
            steps.append(("push", stream, tuple(self._row() for _ in range(chance.choice((1, 1, 2, 4, 7))))))
            if self.running and chance.random() < self.eager:
                steps.append(("fetch", chance.choice(sorted(self.running))))
        if chance.random() < 0.15:
            self.now += chance.choice((0, SECOND, 5 * SECOND))
            steps.append(("advance", chance.choice(STREAMS), self.now))
        if chance.random() < 0.1:
            table, value = chance.choice(sorted(TABLES)), chance.choice("abc")
            written = f"UPDATE {table} SET z = z + 1 WHERE k = '{value}'"
            steps.append(("execute", table, chance.choice((written, f"DELETE FROM {table} WHERE k = '{value}'"))))
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            self._change()
        if self.running and chance.random() < 0.3:
            back = chance.choice((None, None, 1, SECOND, 3 * SECOND, 10 * SECOND))
            steps.append(("lookup", chance.choice(sorted(self.running)), None if back is None else self.now - back))
        if chance.random() < self.restarts:
            steps.append((chance.choice(("reopen", "replay")) if self.durable else "restore",))

    def _row(self) -> Row:
        chance = self.chance
        self.now += chance.choice((0, 0, 1, SECOND // 2, SECOND, SECOND, 2 * SECOND))
        if chance.random() < self.jumps:
            self.now += chance.choice((9, 40, 90)) * SECOND
        behind = chance.choice((0, 0, 0, 0, 1, SECOND, 2 * SECOND)) if chance.random() > self.late else 8 * SECOND
        row: Row = {
            "ts": self.now - behind,
            "k": chance.choice("aabbc"),
            "i": chance.randint(-5, 9),
            "v": chance.randint(-5, 9),
            "x": chance.choice((chance.randint(-9, 9) / 4,) * 9 + (float("nan"), float("inf"), -0.0)),
            "w": chance.choice(("", "p", "q", "é")),
            "b": chance.choice((True, False)),
        }
        return {key: None if key != "ts" and chance.random() < self.nulls else value for key, value in row.items()}

    def _change(self) -> None:
        kind = self.chance.random()
        if kind < 0.5 or not self.running:
            if len(self.running) < 6:
                self._create()
            return
        number = self.chance.choice(sorted(self.running))
        if kind < 0.8:
            self.running[number] = not self.running[number]
            self.steps.append(("resume" if self.running[number] else "suspend", number))
        elif not any(number in self.queries[other].reads for other in self.running):
            del self.running[number]
            self.steps.append(("drop", number))

    def _create(self) -> None:
        chance = self.chance
        number = f"q{len(self.queries)}"
        taken = {self.queries[other].name for other in self.running}
        name = chance.choice([f"q{at}" for at in range(len(self.queries) + 1) if f"q{at}" not in taken])
        again = [query for query in self.queries.values() if not query.reads]
        if again and chance.random() < 0.15:
            query = replace(chance.choice(again), name=name)
        else:
            query = self.writer.query(name, {n: self.queries[n] for n in self.running if self.queries[n].readable})
        self.queries[number], self.running[number] = query, True
        self.steps.append(("create", number))


# -- making a failing script smaller ---------------------------------------------------------------------------------


def shrunk(script: Script, fails: Callable[[Script], bool]) -> Script:
    """A script that still fails without so many queries, steps and rows."""
    plays = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(script):
            plays += 1
            if plays > PLAYS_MAX:
                return script
            if fails(candidate):
                script, smaller = candidate, True
                break
    return script


def _smaller(script: Script) -> Iterator[Script]:
    for number in script.queries:
        gone = {other for other in script.queries if number in script.closure(other)}
        queries = {other: query for other, query in script.queries.items() if other not in gone}
        steps = tuple(step for step in script.steps if not (len(step) > 1 and step[1] in gone))
        yield replace(script, queries=queries, steps=steps)
    created = {step[1] for step in script.steps if step[0] == "create"}
    plain = [at for at, step in enumerate(script.steps) if step[0] != "create"]
    for size in (8, 4, 2, 1):
        for begin in range(0, len(plain), size):
            left_out = set(plain[begin : begin + size])
            yield replace(script, steps=tuple(step for at, step in enumerate(script.steps) if at not in left_out))
    for at, step in enumerate(script.steps):
        if step[0] == "create" and at:  # earlier, which is simpler
            moved = [*script.steps[: at - 1], step, script.steps[at - 1], *script.steps[at + 1 :]]
            if script.steps[at - 1][0] == "create" or set(script.queries[step[1]].reads) & created:
                continue
            yield replace(script, steps=tuple(moved))
        if step[0] == "push" and len(step[2]) > 1:
            for out in range(len(step[2])):
                rows = (*step[2][:out], *step[2][out + 1 :])
                yield replace(script, steps=(*script.steps[:at], (*step[:2], rows), *script.steps[at + 1 :]))
    flags = ("behind", "small_steps", "archived", "durable")
    for plainer in ({"schedule": DEFAULT}, *({flag: False} for flag in flags)):
        if replace(script, **plainer) != script and not (plainer.get("durable") is False and _reopens(script)):
            yield replace(script, **plainer)


def _reopens(script: Script) -> bool:
    return any(step[0] in ("reopen", "replay") for step in script.steps)


def told(script: Script) -> str:
    """The script as Python that plays it beside the others; `restore` and the like in words."""
    nan = "nan, inf = float('nan'), float('inf')"
    folder = "'folder', sync='never', " if script.durable else ""
    lines = [nan, f"engine = pw.Engine({folder}sharing={script.sharing!r}, schedule={script.schedule!r})"]
    used = {name for query in script.queries.values() for name in query.inputs}
    lines += [f"engine.execute({statements!r})" for name, statements in script.setup.items() if name in used]
    if script.small_steps:
        lines.append(f"vars(bounded_steps).update({SMALL_STEPS})")
    if script.behind:
        lines.append("engine.schedule.begins_behind = engine.schedule.stays_behind = lambda stream: True")
        lines.append("engine.schedule.budget = lambda seconds: 0.0")
    if script.archived:
        lines += [f"engine.execute({archive_of(name, 'folder')!r})" for name in STREAMS if name in used]
    for verb, *parts in script.steps:
        query = script.queries.get(str(parts[0])) if parts else None
        match verb:
            case "create":
                assert query is not None
                lines.append(f"engine.execute({query.statement!r})  # {parts[0]}")
            case "drop" | "suspend" | "resume":
                assert query is not None
                lines.append(f"engine.execute('{verb.upper()} QUERY {query.name}')  # {parts[0]}")
            case "push" | "advance" | "execute" if parts[0] not in used:
                pass
            case "execute":
                lines.append(f"engine.execute({parts[1]!r})")
            case "push":
                lines.append(f"engine.push({parts[0]!r}, {list(parts[1])!r})")
            case "lookup" | "fetch":
                assert query is not None
                method = "results" if verb == "fetch" else "lookup"
                lines.append(f"engine.{method}({query.name!r}{''.join(f', at={at!r}' for at in parts[1:])})")
            case "restore":
                lines.append("engine = pw.Engine.restore(engine.snapshot(), pw.Engine(sharing=..., schedule=...))")
            case "reopen" | "replay":
                lines.append(f"engine.close(snapshot={verb == 'reopen'}); engine = pw.Engine('folder', ...)")
            case _:
                lines.append(f"engine.{verb}({', '.join(map(repr, parts))})")
    return "\n".join(lines)

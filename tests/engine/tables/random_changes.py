"""Random change streams of tables, pushed in any order beside the streams that join them.

The history of a table is what its changes say one after the other, in order of event time and then of arrival; the
rest of the oracle is that of `random_tables`. Bad changes are set aside, and the oracle says which they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import panewise as pw
from tests.engine.random_relations import CREATE, SECOND, Row, random_rows
from tests.engine.tables.random_tables import FOREVER, STREAMS, TABLES, History, Play

WORDS = (*("upsert",) * 14, *("insert",) * 3, "Insert", *("UPDATE",) * 3, *("delete",) * 4, "replace", None)


def engine_with_changes(on_bad_row: str = "skip") -> pw.Engine:
    engine = pw.Engine()
    for stream in STREAMS:
        engine.execute(CREATE.format(stream))
    for name, (columns, retroactive) in TABLES.items():
        engine.execute(
            f"CREATE STREAM {name}_changes (ts TIMESTAMP, op STRING, w STRING, K BIGINT, v BIGINT, "
            f"WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS) WITH (on_bad_row = '{on_bad_row}')"
        )
        engine.execute(
            f"CREATE TABLE {name} ({columns}){'' if retroactive else ' NON RETROACTIVE'} "
            f"WITH (changes = '{name}_changes', operation = 'op')"
        )
    return engine


def history_of(name: str, changes: list[Row]) -> tuple[History, int]:
    """What a table was from when to when, and how many changes do not fit."""
    keyed, retroactive = "PRIMARY" in TABLES[name][0], TABLES[name][1]
    history, bad = History(name), 0
    for change in sorted(changes, key=lambda row: row["ts"]):  # stable: ties as they came
        word, at = (change["op"] or "").lower(), change["ts"]
        row = {"k": change["K"], "v": change["v"], "w": change["w"]}
        if keyed:
            same = [other for other in history.present if other["k"] == row["k"]]
        else:
            same = [other for other in history.present if all(other[name] == row[name] for name in "kvw")][:1]
        deleted_now = any(o["k"] == row["k"] and o["until"] == at and "deleted" in o for o in history.rows)
        fits = word in ("upsert", "insert", "update", "delete") and not (keyed and row["k"] is None)
        fits &= not (word == "update" and not (keyed and same)) and not (word == "insert" and keyed and bool(same))
        fits &= not (keyed and not retroactive and word != "delete" and not same and deleted_now)
        if not fits:
            bad += 1
            continue
        for other in same if keyed or word == "delete" else []:
            other["until"] = at
            if word == "delete":
                other["deleted"] = True
        if word != "delete":
            history.rows.append(row | {"since": at, "until": FOREVER})
    return history, bad


@dataclass
class ChangePlay(Play):
    """A query over windows and tables that streams change."""

    changes: dict[str, list[Row]] = field(default_factory=dict)
    bad: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.engine = engine_with_changes()
        self.changes = {name: [] for name in TABLES}

    def random_changes(self, count: int) -> list[list[Row]]:
        chance, rows, time = self.chance, [], 0
        for _ in range(chance.randint(0, count)):
            time += chance.choice((0, 0, 1, SECOND // 4, SECOND, 3 * SECOND))
            rows.append(
                {
                    "ts": max(0, time - chance.choice((0, 0, 0, 1, SECOND))),
                    "op": chance.choice(WORDS),
                    "w": chance.choice("pq"),
                    "K": chance.choice((1, 1, 1, 2, 2, 3, 3, None)),
                    "v": chance.choice((0, 2, 3, None)),
                }
            )
        cuts = sorted(chance.sample(range(len(rows) + 1), min(3, len(rows) + 1)))
        return [rows[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]

    def create(self) -> None:
        super().create()
        reach = max(source.length or 0 for source in self.sources)
        for name in self.tables:
            known = max((row["ts"] for row in self.changes[name]), default=None)
            if known is not None:
                known += (0 if TABLES[name][1] else reach - 1) - 2 * SECOND
                self.begins = max(self.begins, known)

    def run(self) -> None:
        chance = self.chance
        left: dict[str, list[list[Row]]] = {
            stream: parts for stream, parts in random_rows(chance, 14).items() if stream in STREAMS
        }
        left |= {f"{name}_changes": self.random_changes(16) for name in dict.fromkeys(self.tables)}
        waits = chance.choice((0, 0, 0, 2, 4))
        while any(left.values()):
            if waits == 0:
                self.create()
            waits -= 1
            stream = chance.choice([name for name, parts in left.items() if parts])
            batch = left[stream].pop(0)
            if batch:
                self.engine.push(stream, batch)
                own = self.rows if stream in STREAMS else self.changes
                own[stream.removesuffix("_changes")] += batch
            if chance.random() < 0.5 and waits < 0:
                self.results.append(self.engine.results("q"))
            if chance.random() < 0.3:
                self.engine = pw.Engine.restore(self.engine.snapshot())
        if waits >= 0:
            self.create()
        for stream in (*STREAMS, *(f"{name}_changes" for name in TABLES)):
            self.engine.advance(stream, 60 * SECOND)
        self.results.append(self.engine.results("q"))
        assert self.engine.stats()["queries"]["q"]["status"] == "RUNNING"
        for name in dict.fromkeys(self.tables):
            self.histories[name], bad = history_of(name, self.changes[name])
            self.check_rows(name)
            assert self.engine.bad_rows(f"{name}_changes").num_rows <= bad  # restored ones are counted, and not kept
            assert self.engine.stats()["streams"][f"{name}_changes"]["bad_rows"] == bad
            self.bad += bad
            self.changed += len(self.histories[name].rows)

    def check_rows(self, name: str) -> None:
        found: list[dict[str, Any]] = self.engine.execute(f"SELECT k, v, w FROM {name}").to_pylist()
        expected = [{column: row[column] for column in "kvw"} for row in self.histories[name].present]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))


def check_changes(seed: int) -> tuple[ChangePlay, int]:
    play = ChangePlay(Random(seed))
    play.run()
    return play, play.compare()

"""Trees of one partitioning share a fragment: its buckets, packets and pages. Without Spark, in this process.

partitioning (k):     families of every WHERE and technique          partitioning (): likewise, in one bucket
partitioning (k, w):  families that group by k, w and by w, k
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.plan import physical_plan as physical
from panewise.plan.decided import decided_on
from panewise.spark.buckets import family_pages
from panewise.spark.buckets.bucket_head import Head
from panewise.spark.environment.folder import Folder
from panewise.spark.program.changes import Change, StoredPlace, write_change
from panewise.spark.program.known_programs import read_program
from panewise.spark.program.program import Program
from panewise.spark.stages.stage_one import StreamTask, kept_column
from panewise.spark.tasks.batch_progress import last_marks
from panewise.spark.tasks.packing import Packet
from panewise.state.snapshot_format import loaded
from tests.case_runner import same_rows
from tests.now_or_soak import soaking
from tests.spark.local_run import LocalRun

SECOND = 1_000_000
ARROW = pa.schema(
    [("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("w", pa.int64()), ("v", pa.int64())],
)
STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, w BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)"
Rows = list[dict[str, Any]]


def query(name: str, window: str, rest: str = "", items: str = "SUM(v) AS s, COUNT(*) AS n", options: str = "") -> str:
    keys = rest.partition("GROUP BY ")[2]
    return f"CREATE QUERY {name}{options} AS SELECT {keys}{', ' if keys else ''}{items} FROM t [{window}] {rest}"


QUERIES = [
    query("plain", "RANGE 5 SECONDS SLIDE 1 SECOND", "GROUP BY k"),
    query("wide", "RANGE 21 SECONDS SLIDE 3 SECONDS", "GROUP BY k", "MAX(v) AS m"),
    query("high", "RANGE 4 SECONDS SLIDE 2 SECONDS", "WHERE v > 4 GROUP BY k"),
    query("higher", "RANGE 30 SECONDS SLIDE 5 SECONDS", "WHERE v > 6 GROUP BY k", "MIN(v) AS m, FIRST(v) AS f"),
    query("stacked", "RANGE 6 SECONDS SLIDE 1 SECOND", "GROUP BY k", "MAX(v) AS m", " WITH (technique = 'two_stacks')"),
    query("forth", "RANGE 3 SECONDS SLIDE 1 SECOND", "GROUP BY k, w"),
    query("back", "RANGE 4 SECONDS SLIDE 2 SECONDS", "WHERE v > 4 GROUP BY w, k", "AVG(v) AS a"),
    query("all_rows", "RANGE 7 SECONDS SLIDE 1 SECOND"),
    query("some_rows", "RANGE 7 SECONDS SLIDE 2 SECONDS", "WHERE k = 'a'", "LAST(v) AS l, COUNT(*) AS n"),
    query("high_rows", "RANGE 3 SECONDS SLIDE 3 SECONDS", "WHERE v > 4"),
]
NAMES = [text.split()[2] for text in QUERIES]


def program_of(*changes: tuple[str, ...], sharing: str = "weave") -> Program:
    program = Program(4, sharing=sharing)
    for number, statements in enumerate(changes):
        program.apply(Change(number, number, statements))
    return program


def family_of(program: Program, name: str, version: int = -1) -> int:
    held = program.newest if version < 0 else program.version(version)
    return held.queries[name].family


def test_numbers_are_read_and_not_decided_again(tmp_path: Path) -> None:
    """As another panewise might have numbered them: this one goes on with its numbers, and with greater ones."""
    program = Program(4)
    statements = (STREAM, *QUERIES)
    change = program.apply(Change(0, 0, statements))
    assert change.places is not None
    moved = {
        name: StoredPlace(place.fragment + 10, place.family + 20 if place.family else 0, place.selection + 30)
        for name, place in change.places.items()
    }
    folder = Folder(str(tmp_path))
    (tmp_path / "catalog").mkdir()
    write_change(folder, replace(change, places=moved))
    read = read_program(folder, 4, {})
    assert {n: (q.fragment, q.family) for n, q in read.versions[0].queries.items()} == {
        name: (place.fragment, place.family) for name, place in moved.items()
    }
    assert {family.selection for family in read.families.values()} == {place.selection for place in moved.values()}
    later = read.apply(Change(1, 5, (query("new", "RANGE 9 SECONDS SLIDE 3 SECONDS", "WHERE v > 99 GROUP BY k"),)))
    assert later.places is not None
    assert later.places["new"].fragment == read.versions[0].queries["plain"].fragment
    assert later.places["new"].family not in {place.family for place in moved.values()}
    assert later.places["new"].selection not in {place.selection for place in moved.values()}


def test_a_place_that_does_not_fit_is_refused() -> None:
    program = Program(4)
    change = program.apply(Change(0, 0, (STREAM, *QUERIES)))
    assert change.places is not None
    wrong = {**change.places, "forth": change.places["plain"]}
    with pytest.raises(pw.SnapshotError, match="'forth'"):
        Program(4).apply(replace(change, places=wrong))


PAIR = "t [RANGE 5 SECONDS] AS a, t [RANGE 6 SECONDS] AS b"
SEVERAL = (
    f"CREATE QUERY kinds AS SELECT DISTINCT a.k, b.v FROM {PAIR} WHERE a.k = b.k",
    f"CREATE QUERY three AS SELECT a.k FROM {PAIR}, t [RANGE 7 SECONDS] AS c WHERE a.k = b.k AND b.v = c.v",
)


def test_what_was_decided_on_queries_is_read_and_not_decided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another panewise might have planned them; one that wrote nothing had planned by assumptions."""
    change = Program(4).apply(Change(0, 0, (STREAM, *SEVERAL)))
    assert change.places is not None
    kinds, three = change.places["kinds"], change.places["three"]
    assert [step["rule"] for step in kinds.decided["rewrites"]] == ["push down distinct"]
    assert three.decided["orders"] == [[[1, 2], [0, 2], [1, 0]]]
    other = (
        {"rewrites": [], "gives": "", "orders": [[[1], [0]]]},
        {**three.decided, "orders": [[[2, 1], [2, 0], [0, 1]]]},
    )
    places = {name: replace(change.places[name], decided=one) for name, one in zip(change.places, other, strict=True)}
    folder = Folder(str(tmp_path))
    (tmp_path / "catalog").mkdir()
    write_change(folder, replace(change, places=places))
    nodes = {name: query.node for name, query in read_program(folder, 4, {}).newest.queries.items()}
    assert {name: decided_on(node).to_dict() for name, node in nodes.items()} == dict(zip(nodes, other, strict=True))
    path = tmp_path / "catalog" / "000000.json"
    written = json.loads(path.read_text())
    for place in written["places"].values():
        del place["decided"]
    path.write_text(json.dumps(written))
    older = read_program(folder, 4, {}).newest.queries
    assert {name: decided_on(query.node).to_dict() for name, query in older.items()} == {
        name: place.decided for name, place in change.places.items()
    }


def test_a_rewrite_that_cannot_be_made_again_is_refused() -> None:
    change = Program(4).apply(Change(0, 0, (STREAM, *SEVERAL)))
    assert change.places is not None
    kinds = change.places["kinds"]
    gone = {**kinds.decided, "rewrites": [{**kinds.decided["rewrites"][0], "rule": "some other rule"}]}
    with pytest.raises(pw.SnapshotError, match="'kinds' belongs to a plan whose rewrite 1, 'some other rule'"):
        Program(4).apply(replace(change, places={**change.places, "kinds": replace(kinds, decided=gone)}))


def random_rows(chance: random.Random, count: int, since: float) -> Rows:
    """Out of order by less than the delay."""
    times = [since + number * 0.25 for number in range(count)]
    times.sort(key=lambda time: time + chance.random() * 1.5)
    return [
        {
            "ts": int(time * SECOND),
            "k": chance.choice(("a", "b", "c", "d", None)),
            "w": chance.choice((1, 2, 3, None)),
            "v": chance.choice((None, *range(10))),
        }
        for time in times
    ]


def push(run: LocalRun, rows: Rows) -> dict[str, Rows]:
    """In two messages, which two tasks read."""
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        if part:
            run.push("t", pa.RecordBatch.from_pylist(part, ARROW))
    return {name: table.to_pylist() for name, table in run.run().items()}


def heads(run: LocalRun) -> dict[int, Head]:
    return {key: Head.unpacked(content["head"]) for key, content in run.stores.items() if "head" in content}


def stored_families(run: LocalRun) -> set[int]:
    """Of which families there is anything in the store: pages, what heads say of them, outlines."""
    found: set[int] = set()
    for key, head in heads(run).items():
        found |= set(head.body["outlines"]) | {part.owner for page in head.pages for part in page.parts}
        for page in head.pages:
            found |= {family for family, _, _ in loaded(run.stores[key][page.number])}
    return found


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sharing", "families"), [("weave", 9), ("none", 10)])
def test_a_partitioning_is_a_fragment(sharing: str, families: int) -> None:
    program = program_of((STREAM, *QUERIES), sharing=sharing)
    version = program.version(0)
    by_fragment: dict[int, set[str]] = {}
    for name, planned in version.queries.items():
        by_fragment.setdefault(planned.fragment, set()).add(name)
    assert sorted(by_fragment.values(), key=len) == [
        {"forth", "back"},
        {"all_rows", "some_rows", "high_rows"},
        {"plain", "wide", "high", "higher", "stacked"},
    ]
    assert len({planned.family for planned in version.queries.values()}) == families
    assert (family_of(program, "plain") == family_of(program, "wide")) == (sharing == "weave")
    forth, back = (program.families[family_of(program, name)] for name in ("forth", "back"))
    assert (forth.key_columns, back.key_columns) == (("key_0", "key_1"), ("key_1", "key_0"))
    # One column of Spark's for all families that keep the same rows.
    same = {kept_column(program.families[family_of(program, name)]) for name in ("high", "back", "high_rows")}
    assert len(same) == 1
    assert kept_column(program.families[family_of(program, "higher")]) not in same


def test_a_family_has_its_number_as_long_as_it_has_queries() -> None:
    window = "RANGE 5 SECONDS SLIDE 1 SECOND"
    one, two, three = (query(name, window, "WHERE v > 1 GROUP BY k") for name in ("one", "two", "three"))
    other = query("other", window, "GROUP BY k")
    program = program_of(
        (STREAM, one, other),
        (two,),
        ("DROP QUERY one",),
        ("DROP QUERY two",),
        (one,),
        ("DROP QUERY one", one),  # made anew
        (two, "DROP QUERY one"),  # nobody stays from the version before
        ("DROP QUERY two", two, three, "SUSPEND QUERY two"),
    )
    first = family_of(program, "one", 0)
    assert [family_of(program, name, at) for name, at in (("one", 1), ("two", 1), ("two", 2))] == [first] * 3
    later = [family_of(program, "one", 4), family_of(program, "one", 5), family_of(program, "two", 6)]
    last = family_of(program, "two", 7)
    assert len({first, *later, last}) == 5
    assert family_of(program, "three", 7) == last
    assert {family_of(program, "other", at) for at in range(8)} == {family_of(program, "other", 0)}
    assert {v.queries["other"].fragment for v in program.versions} == {program.version(0).queries["other"].fragment}


def test_a_packet_carries_partials_of_several_families() -> None:
    parts = {3: pa.record_batch({"a": [1, 2]}), 70_000: pa.record_batch({"b": ["x"]})}
    packet = Packet(1, 2, "t@0", greatest=5, rows=3, notes={"q": 7}, parts=parts)
    assert Packet.unpacked(packet.packed()) == packet
    whole = Packet(1, 0, "t@0", batch=pa.record_batch({"a": [1.5]}))
    assert Packet.unpacked(whole.packed()) == whole
    assert Packet.unpacked(Packet(1, 0, "t@0").packed()) == Packet(1, 0, "t@0")


def test_what_spark_has_selected_holds_for_all_families_with_that_where(tmp_path: Path) -> None:
    """Here a column lies about WHERE v > 4, which shows whom it is told; other families look for themselves."""
    run = LocalRun(tmp_path, partitions=2)
    run.change(STREAM, *QUERIES)
    task = run._task()
    rows = pa.RecordBatch.from_pylist([{"ts": SECOND, "k": "a", "w": 1, "v": 7}], ARROW)
    column = kept_column(run.program.families[family_of(run.program, "high")])
    reader = StreamTask(task, "t@0")
    reader.take(rows.append_column(column, pa.array([False])))
    packets = [packet for _, packet in reader.packets()]
    assert sorted(packet.fragment for packet in packets) == [0, 1, 1, 2, 2, 3]  # one for each bucket, and the meter's
    found = {family for packet in packets for family in packet.parts}
    assert found == {family_of(run.program, name) for name in NAMES if name not in ("high", "back", "high_rows")}


# -- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dense_groups", "sharing"), soaking(product([3, 4096], ["weave", "none"]), now=[(3, "weave"), (4096, "none")])
)
def test_many_families_answer_as_the_engine(
    dense_groups: int, sharing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(physical, "SPARSE_ABOVE", dense_groups)
    monkeypatch.setattr(family_pages, "PAGES_PER_LEVEL", 3)
    engine = pw.Engine()
    run = LocalRun(tmp_path, partitions=3, seed=5, sharing=sharing)
    run.change(STREAM, *QUERIES)
    for text in (STREAM, *QUERIES):
        engine.execute(text)
    chance = random.Random(1)
    found: dict[str, Rows] = {name: [] for name in NAMES}
    for turn in range(14):
        rows = random_rows(chance, 30, turn * 7.5)
        engine.push("t", rows)
        for name, more in push(run, rows).items():
            found[name] += more
    assert engine.stats()["streams"]["t"]["late_rows"] == 0
    for name in NAMES:
        expected = engine.results(name).to_pylist()
        assert len(expected) > 10, name
        same_rows(expected, found[name])


def test_rebuilt_buckets_are_those_that_were_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their results and all that is written of them, while queries of some families come and go."""
    monkeypatch.setattr(family_pages, "PAGES_PER_LEVEL", 3)
    runs = [LocalRun(tmp_path / "kept"), LocalRun(tmp_path / "rebuilt", forgetful=True)]
    changes = {
        0: [STREAM, *QUERIES],
        3: ["DROP QUERY high", query("late", "RANGE 4 SECONDS SLIDE 3 SECONDS", "WHERE v > 6 GROUP BY k")],
        5: ["DROP QUERY forth", "DROP QUERY some_rows", query("more", "RANGE 9 SECONDS SLIDE 4 SECONDS", "GROUP BY k")],
        8: [QUERIES[NAMES.index("high")], QUERIES[NAMES.index("some_rows")], "DROP QUERY plain"],
        9: [query("low", "RANGE 3 SECONDS SLIDE 1 SECOND", "WHERE v < 2 GROUP BY w, k")],
    }
    chance = random.Random(2)
    heard = 0
    for turn in range(16):
        rows = random_rows(chance, 24, turn * 6)
        results = []
        for run in runs:
            if turn in changes:
                run.change(*changes[turn])
            results.append(push(run, rows))
        assert results[0].keys() == results[1].keys()
        for name in results[0]:
            same_rows(results[0][name], results[1][name])
            heard += name in ("late", "more", "low", "high") and turn > 10
        kept, rebuilt = (heads(run) for run in runs)
        assert kept.keys() == rebuilt.keys()
        for key, head in kept.items():
            assert head.body == rebuilt[key].body
            # Not their sizes: a family of stage 1 that has met a NULL counts more than one that is fresh.
            assert [page.to_list()[:4] for page in head.pages] == [page.to_list()[:4] for page in rebuilt[key].pages]
    assert heard > 10


@pytest.mark.parametrize(
    ("forgetful", "together"), soaking(product([False, True], repeat=2), now=[(False, True), (True, False)])
)
def test_a_family_that_comes_again_knows_nothing_of_before(forgetful: bool, together: bool, tmp_path: Path) -> None:
    """It says nothing of windows whose rows it has not all seen, and others go on. `together`: in the same change."""
    run = LocalRun(tmp_path, forgetful=forgetful)
    window = "RANGE 10 SECONDS SLIDE 1 SECOND"
    gone = [query("grouped", window, "WHERE v > 0 GROUP BY k"), query("summed", window, "WHERE v > 0")]
    stay = [query("others", window, "GROUP BY k"), query("sums", window)]
    drop = ["DROP QUERY grouped", "DROP QUERY summed"]
    run.change(STREAM, *gone, *stay)
    back = 20 if together else 24
    first: set[int] = set()
    stored: set[int] = set()
    found: dict[str, Rows] = {name: [] for name in ("grouped", "summed", "others", "sums")}
    for second in range(60):
        if second == 20:
            run.change(*drop, *(gone if together else []))
        elif second == back:
            run.change(*gone)
        for name, rows in push(run, [{"ts": second * SECOND, "k": "a", "w": 1, "v": 1}]).items():
            found[name] += [row | {"since": second} for row in rows]
        if second == 19:
            first = stored_families(run)
        stored = stored_families(run)
        if second == 23 and not together:
            assert len(stored) == 2 and stored < first
    assert len(first) == len(stored) == 4 and len(first & stored) == 2
    ends = {name: [int(row["window_end"].timestamp()) for row in rows] for name, rows in found.items()}
    for name in ("others", "sums"):
        assert ends[name] == list(range(1, 58))
        assert [row["n"] for row in found[name]] == [min(end, 10) for end in ends[name]]
    for name in ("grouped", "summed"):
        assert [end for end in ends[name] if end <= 17] == list(range(1, 18))
        later = [(end, row["n"]) for end, row in zip(ends[name], found[name], strict=True) if row["since"] >= 20]
        assert later == [(end, 10) for end in range(back + 10, 58)]


@pytest.mark.parametrize("forgetful", [False, True])
def test_a_query_that_joins_one_that_has_failed(forgetful: bool, tmp_path: Path) -> None:
    """Stage 1 goes on folding for a query that has failed: both stages must cut its family at the same edges."""
    run = LocalRun(tmp_path, forgetful=forgetful)
    window = "RANGE 5 SECONDS SLIDE 5 SECONDS"
    run.change(
        STREAM,
        query("failing", window, "WHERE v > 0", "FRAIL(1e18 + v * 1e6) AS s"),
        query("good", window, "WHERE v > 0"),
        query("other", "RANGE 2 SECONDS SLIDE 1 SECOND"),
    )
    found: Rows = []
    for tick in range(80):
        if tick == 30:
            run.change("DROP QUERY good")
        if tick == 33:
            run.change(query("new", "RANGE 3 SECONDS SLIDE 1 SECOND", "WHERE v > 0"))
        rows = [{"ts": tick * SECOND // 2, "k": "a", "w": 1, "v": 1}]
        found += push(run, rows).get("new", [])
    assert list(last_marks(run.folder).failed) == ["failing@0"]
    assert [row["n"] for row in found] == [6] * len(found)
    # The last row was at 16 seconds, so that [17, 20) is the first whole window; the watermark has come to 37.5.
    assert [int(row["window_end"].timestamp()) for row in found] == list(range(20, 38))


@pytest.mark.parametrize("by", ["", "GROUP BY k"])
def test_a_query_that_fails_while_it_joins(by: str, tmp_path: Path) -> None:
    """Its first report is of slices that its family holds for others: the micro-batch goes on without it."""
    run = LocalRun(tmp_path)
    window = "RANGE 10 SECONDS SLIDE 5 SECONDS"
    run.change(STREAM, query("long", "RANGE 1 HOUR SLIDE 1 HOUR", by, "FRAIL(4e17 * v) AS f"), query("n", window, by))

    def pushed(seconds: range) -> list[int]:
        rows = [{"ts": second * SECOND, "k": "a", "w": 1, "v": 1} for second in seconds]
        return [row["n"] for row in push(run, rows).get("n", [])]

    assert pushed(range(1, 23)) == [4, 9, 10, 10]
    run.change(query("q", window, by, "FRAIL(4e17 * v) AS f"))
    assert pushed(range(23, 25)) == []
    assert list(last_marks(run.folder).failed) == ["q@1"]
    assert pushed(range(25, 40)) == [10, 10, 10]


# -- state -----------------------------------------------------------------------------------------------------------


def test_what_is_left_of_a_family_that_is_gone_disappears(tmp_path: Path) -> None:
    """Although pages that it shared with others are needed for long."""
    run, alone = LocalRun(tmp_path / "beside"), LocalRun(tmp_path / "alone")
    for each in (run, alone):
        each.change(STREAM, query("long", "RANGE 1000 SECONDS SLIDE 10 SECONDS", "GROUP BY k"))
    run.change(query("large", "RANGE 1000 SECONDS SLIDE 1 SECOND", "WHERE v > 0 GROUP BY k"))
    version = run.program.newest
    chance = random.Random(3)
    for turn in range(10):
        rows = random_rows(chance, 80, turn * 20)
        for each in (run, alone):
            push(each, rows)
    assert stored_families(run) == {version.queries["long"].family, version.queries["large"].family}
    assert bytes_stored(run) > bytes_stored(alone)
    run.change("DROP QUERY large")
    rows = random_rows(chance, 80, 200)
    for each in (run, alone):
        push(each, rows)
    assert stored_families(run) == {version.queries["long"].family}
    assert bytes_stored(run) == bytes_stored(alone)


def bytes_stored(run: LocalRun) -> int:
    return sum(head.bytes_stored for head in heads(run).values())


@pytest.mark.parametrize(("pages", "seconds"), soaking([(12, 150), (6, 40)], now=[(6, 40)]))
def test_merged_pages_do_not_outlive_their_slices_for_long(
    pages: int, seconds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve pages of twelve micro-batches each would be as long as the window, and go all at once."""
    monkeypatch.setattr(family_pages, "PAGES_PER_LEVEL", pages)
    run = LocalRun(tmp_path, partitions=1)
    run.change(STREAM, query("q", f"RANGE {seconds} SECONDS SLIDE 1 SECOND", "GROUP BY k"))
    chance, found = random.Random(1), []
    for turn in range(seconds * 8 // 3):
        push(run, random_rows(chance, 4, turn))
        found.append(sum(head.bytes_stored for head in heads(run).values()))
    held = found[seconds * 22 // 15 :]
    assert max(held) < 2 * min(held)


def test_a_family_of_short_windows_keeps_little_beside_one_of_long_windows(tmp_path: Path, soak: bool) -> None:
    turns = 120 if soak else 60

    def kept(place: str, *queries: str) -> list[int]:
        run = LocalRun(tmp_path / place, partitions=1)
        run.change(STREAM, *queries)
        chance, found = random.Random(4), []
        for turn in range(turns):
            push(run, random_rows(chance, 40, turn * 10))
            found.append(sum(head.bytes_stored for head in heads(run).values()))
        assert all(len(head.pages) < 5 * family_pages.PAGES_PER_LEVEL for head in heads(run).values())
        return found

    short = query("short", "RANGE 20 SECONDS SLIDE 1 SECOND", "WHERE v > 0 GROUP BY k")
    long = query("long", "RANGE 1000 SECONDS SLIDE 100 SECONDS", "GROUP BY k")
    both, apart = kept("both", short, long), [kept("short", short), kept("long", long)]
    assert max(both[40:]) < 2 * (max(apart[0][40:]) + max(apart[1][40:]))

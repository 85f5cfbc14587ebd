"""The ledger: whoever reads when, gets all of its member's reports once and in order, and what went is counted."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from panewise.engine.channels import unread_results
from panewise.engine.channels.ledger import READ_ENTRIES_MAX, Ledger, LedgerEntry, LedgerPosition
from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.errors import PlanError
from panewise.operators.due_reports import EmptyReports
from panewise.operators.reports import MemberBatches, Piece
from tests.engine.small_engine import STREAM, row, rows, tuples

SCHEMA = pa.schema([("window_start", pa.int64()), ("window_end", pa.int64())])
MEMBERS = 5


# -- by itself -------------------------------------------------------------------------------------------------------


def batch_of(ends: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(ends, pa.int64())] * 2, schema=SCHEMA)


def written_out(piece: Piece) -> list[pa.RecordBatch]:
    if isinstance(piece, EmptyReports):
        return [batch_of([piece.first + n * piece.slide for n in range(piece.count)])]
    return [piece]


class Model:
    """A list for each member; a reader has a place in it."""

    def __init__(self) -> None:
        self.ledger = Ledger(SCHEMA)
        self.said: dict[int, list[int]] = defaultdict(list)
        self.readers: list[tuple[LedgerPosition, int]] = []  # with the place up to which it has read
        self.now = 0

    def write(self, together: dict[int, int], apart: dict[int, int], most: int | None) -> None:
        """By member, how many rows; those apart are a batch and a range of empty reports around those together."""
        entry, lists = LedgerEntry(), defaultdict(list)
        for number, count in apart.items():
            entry.apart[number] = [batch_of(self.ends(count)), EmptyReports(self.now, count, 1)]
            lists[number] += [*range(self.now - count, self.now + count)]
            self.now += count
        shared = {number: self.ends(count) for number, count in together.items()}
        if shared:
            cuts = np.cumsum([0, *map(len, shared.values())])
            flat = [end for ends in shared.values() for end in ends]
            entry.together.append(MemberBatches(0, batch_of(flat), np.array([*shared], np.int64), cuts))
            for number, ends in shared.items():
                lists[number] += ends
        if entry.together or entry.apart:
            self.ledger.write(entry, most)
        for number, ends in lists.items():
            self.said[number] += ends

    def ends(self, count: int) -> list[int]:
        self.now += count
        return [*range(self.now - count, self.now)]

    def join(self, number: int) -> None:
        self.readers.append((self.ledger.join(number), len(self.said[number])))

    def leave(self, choice: int) -> None:
        if self.readers:
            self.ledger.leave(self.readers.pop(choice % len(self.readers))[0])

    def read(self, choice: int) -> None:
        if not self.readers:
            return
        place = choice % len(self.readers)
        reader, read = self.readers[place]
        said, lost = self.said[reader.number], self.ledger.lost(reader)
        assert self.ledger.rows_of(reader) == len(said)
        unread = [end for piece in self.ledger.unread(reader) for batch in written_out(piece) for end in ends_of(batch)]
        found = ends_of(self.ledger.read(reader, written_out))
        assert found == unread == said[read + lost :]
        assert self.ledger.lost(reader) == 0
        self.readers[place] = reader, len(said)

    def check_last(self) -> None:
        for number in range(MEMBERS):
            piece = self.ledger.last(number)
            found = [end for batch in written_out(piece) for end in ends_of(batch)] if piece is not None else []
            assert found[-1:] == self.said[number][-1:]


def ends_of(table: pa.RecordBatch | pa.Table) -> list[int]:
    return table.column(1).to_pylist()  # type: ignore[no-any-return]


members = st.integers(0, MEMBERS - 1)
counts = st.dictionaries(members, st.integers(1, 3), max_size=3)
writes = st.tuples(st.just("write"), counts, st.just({}) | st.just({}) | counts)
actions = st.lists(
    st.one_of(
        writes,
        writes,
        st.tuples(st.just("join"), members),
        st.tuples(st.just("leave"), members),
        st.tuples(st.just("read"), members),
        st.tuples(st.just("read"), members),
    ),
    max_size=40,
)


@given(actions, st.sampled_from([None, None, 4, 10]))
def test_readers_at_their_own_pace(steps: list[tuple[Any, ...]], most: int | None) -> None:
    model = Model()
    for verb, *parts in steps:
        getattr(model, verb)(*parts, *([most] if verb == "write" else []))
        model.check_last()
    losses = [model.ledger.lost(reader) for reader, _ in model.readers]
    assert most is not None or not any(losses)
    for choice in range(len(model.readers)):
        model.read(choice)
    assert not model.ledger._entries or not model.readers


def test_what_all_have_read_is_forgotten_and_last_reports_are_kept() -> None:
    model = Model()
    model.join(0)
    model.join(1)
    model.write({4: 1}, {}, None)
    for _ in range(3 * READ_ENTRIES_MAX):
        model.write({0: 1, 1: 2}, {}, None)
        model.read(0)
    assert len(model.ledger._entries) == 3 * READ_ENTRIES_MAX + 1
    model.read(1)
    assert len(model.ledger._entries) == 0
    assert len(model.ledger._kept) <= READ_ENTRIES_MAX + 1
    model.check_last()


def test_a_limit_drops_the_oldest_and_says_how_many() -> None:
    model = Model()
    model.join(0)
    model.join(1)
    for _ in range(10):
        model.write({0: 3}, {}, 7)
    model.write({1: 1}, {}, 7)
    quick, slow = (reader for reader, _ in model.readers)
    assert model.ledger.lost(quick) == 24
    assert model.ledger.lost(slow) == 0
    model.read(0)
    model.read(1)


# -- in an engine ----------------------------------------------------------------------------------------------------

COUNTS = "SELECT COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND]"
LONGER = "SELECT COUNT(*) AS n FROM t [RANGE 3 SECONDS SLIDE 1 SECOND]"


def create(engine: pw.Engine, **queries: str) -> None:
    for name, text in queries.items():
        engine.execute(f"CREATE QUERY {name} AS {text}")


@pytest.fixture
def engine() -> pw.Engine:
    made = pw.Engine()
    made.execute(STREAM)
    return made


def consumer(engine: pw.Engine) -> FamilyConsumer:
    (found,) = engine.hosting.families
    return found


def fed_by(engine: pw.Engine, member: str) -> set[str]:
    """The queries that get the reports of a member."""
    return {query for query, _ in consumer(engine).measured.queries[member]}


def test_queries_that_are_alike_are_one_member_and_read_by_themselves(engine: pw.Engine) -> None:
    create(engine, a=COUNTS, b=COUNTS, c=LONGER, d=COUNTS)
    assert sorted(consumer(engine).family.members) == ["a", "c"]
    expected = [(end, min(end, 2)) for end in range(1, 21)]
    found: dict[str, list[Any]] = {name: [] for name in "abcd"}
    for second in range(21):
        engine.push("t", rows(second))
        for name, every in (("a", 1), ("b", 3), ("c", 4)):
            if second % every == 0:
                found[name] += tuples(engine.results(name))
    for name, read in found.items():
        read += tuples(engine.results(name))
        assert read == ([(end, min(end, 3)) for end in range(1, 21)] if name == "c" else expected)
        assert engine.results(name).num_rows == 0
    stats = engine.stats()["queries"]
    assert [stats[name]["results"] for name in "abcd"] == [20] * 4
    # Whoever comes at another moment is another member, though it asks the same.
    create(engine, e=COUNTS)
    assert sorted(consumer(engine).family.members) == ["a", "c", "e"]


def test_a_member_goes_on_when_the_query_that_it_is_named_after_goes(engine: pw.Engine) -> None:
    create(engine, a=COUNTS, b=COUNTS, c=COUNTS, other=LONGER)
    engine.push("t", rows(0, 1, 2))
    engine.execute("DROP QUERY a")
    assert sorted(consumer(engine).family.members) == ["b", "other"]
    assert fed_by(engine, "b") == {"b", "c"}
    create(engine, a=COUNTS)  # the name comes back, as another member
    assert sorted(consumer(engine).family.members) == ["a", "b", "other"]
    engine.push("t", rows(3, 4))
    engine.execute("DROP QUERY b")
    engine.push("t", rows(5, 6))
    assert tuples(engine.results("c")) == [(1, 1), (2, 2), (3, 2), (4, 2), (5, 2), (6, 2)]
    assert tuples(engine.results("a"))[-2:] == [(5, 2), (6, 2)]
    assert tuples(engine.lookup("c")) == tuples(engine.lookup("a")) == [(6, 2)]
    again = pw.Engine.restore(engine.snapshot())
    assert sorted(consumer(again).family.members) == sorted(consumer(engine).family.members)
    assert tuples(again.lookup("c")) == [(6, 2)]
    for one in (engine, again):
        one.execute("DROP QUERY c; DROP QUERY a")
        one.push("t", rows(7))
        assert tuples(one.results("other"))[-1] == (7, 3)


def test_queries_that_are_alike_come_and_go_at_one_moment(engine: pw.Engine) -> None:
    create(engine, other=LONGER, a=COUNTS, b=COUNTS)
    engine.execute("DROP QUERY a")
    create(engine, c=COUNTS)
    assert fed_by(engine, "b") == {"b", "c"}
    engine.execute("DROP QUERY b; DROP QUERY c")
    create(engine, d=COUNTS, e=COUNTS)
    assert sorted(consumer(engine).family.members) == ["d", "other"]
    engine.push("t", rows(0, 1, 2))
    assert tuples(engine.results("d")) == tuples(engine.results("e")) == [(1, 1), (2, 2)]


def test_a_member_does_not_inherit_the_last_report_of_one_that_has_gone(engine: pw.Engine) -> None:
    create(engine, gone=COUNTS, other=LONGER)
    engine.push("t", rows(*range(9)))
    number = consumer(engine).family.members["gone"].window
    engine.execute("DROP QUERY gone")
    create(engine, fresh="SELECT COUNT(*) AS n FROM t [RANGE 20 SECONDS SLIDE 1 SECOND]")
    assert consumer(engine).family.members["fresh"].window == number
    assert engine.lookup("fresh").num_rows == 0
    engine.push("t", rows(9))
    assert engine.lookup("fresh").num_rows == 0
    assert tuples(engine.lookup("other")) == [(9, 3)]


def test_unread_results_are_limited_for_each_query(engine: pw.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_results, "UNREAD_ROWS_MAX", 5)
    create(engine, quick=COUNTS, slow=COUNTS, apart=LONGER)
    heard: list[int] = []
    engine.subscribe("apart", lambda batch: heard.append(batch.num_rows))
    read = 0
    for second in range(31):
        engine.push("t", rows(second))
        read += engine.results("quick").num_rows
    stats = engine.stats()["queries"]
    assert {name: stats[name]["results"] for name in stats} == {"quick": 30, "slow": 30, "apart": 30}
    assert (read, sum(heard)) == (30, 30)
    assert stats["quick"]["results_unread_dropped"] == 0
    for name in ("slow", "apart"):
        left = engine.results(name).num_rows
        assert 0 < left <= 6
        assert engine.stats()["queries"][name]["results_unread_dropped"] == 30 - left
        assert engine.results(name).num_rows == 0
    assert engine.stats()["queries"]["slow"]["results"] == 30


def test_unread_results_of_all_queries_have_one_limit() -> None:
    most = 200_000
    engine = pw.Engine(unread_bytes=most)
    engine.execute(STREAM)
    for number in range(10):
        rate = f"[RANGE {number + 1} SECONDS SLIDE 1 SECOND]"
        create(engine, **{f"shared{number}": f"SELECT k, SUM(v) AS s FROM t {rate} GROUP BY k"})
        create(engine, **{f"apart{number}": f"SELECT k, v FROM t [NOW] WHERE v > {number}"})
    before = pa.total_allocated_bytes()
    read = defaultdict(int)
    for second in range(300):
        engine.push("t", [row(second, f"key {key}", 100 + key) for key in range(20)])
        read["quick"] += engine.results("shared0").num_rows
    assert pa.total_allocated_bytes() - before < 10 * most
    stats = engine.stats()["queries"]
    left = {name: engine.results(name) for name in stats}
    assert sum(table.nbytes for table in left.values()) < 2 * most
    for name, table in left.items():
        taken = table.num_rows + (read["quick"] if name == "shared0" else 0)
        assert engine.stats()["queries"][name]["results_unread_dropped"] + taken == stats[name]["results"]
        assert table.num_rows or name == "shared0", "the newest results of each stay"
    assert stats["shared1"]["results_unread_dropped"] > 0
    assert stats["apart1"]["results_unread_dropped"] > 0
    assert stats["shared0"]["results_unread_dropped"] == 0, "who reads loses nothing"


def test_the_limit_of_unread_results_is_a_positive_number() -> None:
    with pytest.raises(PlanError, match="unread_bytes is a whole number"):
        pw.Engine(unread_bytes=0)
    assert pw.Engine(unread_bytes=None).hosting.queries == {}


def test_what_was_dropped_stays_counted_when_a_query_stands_apart(
    engine: pw.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_results, "UNREAD_ROWS_MAX", 5)
    create(engine, slow=COUNTS)
    for second in range(21):
        engine.push("t", rows(second))
        engine.stats()  # rows do not wait for others
    before = engine.stats()["queries"]["slow"]
    assert before["results_unread_dropped"] > 10
    engine.execute("SUSPEND QUERY slow")
    assert engine.stats()["queries"]["slow"]["results_unread_dropped"] == before["results_unread_dropped"]
    assert engine.results("slow").num_rows == 20 - before["results_unread_dropped"]


def test_results_stay_unread_when_a_query_stands_apart(engine: pw.Engine) -> None:
    """A subscriber, a pause or a query that reads it: what it has not read is still there, once."""
    create(engine, heard=COUNTS, paused=COUNTS, read=COUNTS)
    engine.push("t", rows(0, 1, 2, 3))
    calls: list[Any] = []
    engine.subscribe("heard", lambda batch: calls.extend(tuples(pa.Table.from_batches([batch]))))
    engine.execute("SUSPEND QUERY paused")
    create(engine, reader="SELECT MAX(n) AS m FROM read [RANGE 2 SECONDS SLIDE 1 SECOND]")
    engine.push("t", rows(4, 5))
    engine.execute("RESUME QUERY paused")
    engine.push("t", rows(6))
    everything = [(1, 1), (2, 2), (3, 2), (4, 2), (5, 2), (6, 2)]
    assert tuples(engine.results("heard")) == tuples(engine.results("read")) == everything
    assert calls == everything[3:]
    assert tuples(engine.results("paused")) == [row for row in everything if row[0] not in (4, 5)]
    assert {name: engine.stats()["queries"][name]["results"] for name in ("heard", "paused", "read")} == {
        "heard": 6,
        "paused": 4,
        "read": 6,
    }


def test_a_lookup_survives_a_snapshot_and_a_subscriber(engine: pw.Engine) -> None:
    """The last report of before, in an engine that has made none since."""
    create(engine, q=COUNTS)
    engine.push("t", rows(0, 1, 2))
    again = pw.Engine.restore(engine.snapshot())
    again.subscribe("q", lambda batch: None)
    assert tuples(again.lookup("q")) == [(2, 2)]


def test_a_restored_query_that_is_suspended_knows_how_far_it_has_come(engine: pw.Engine) -> None:
    """Whoever begins to read it then has not seen what it said before."""
    create(engine, q=COUNTS)
    engine.push("t", rows(*range(10)))
    engine.execute("SUSPEND QUERY q")
    found = []
    for one in (engine, pw.Engine.restore(engine.snapshot())):
        create(one, reader="SELECT COUNT(*) AS m FROM q [RANGE 6 SECONDS SLIDE 1 SECOND]")
        one.execute("RESUME QUERY q")
        one.push("t", rows(*range(10, 20)))
        found.append(tuples(one.results("reader")))
    assert found[0] == found[1] == [(end, 6) for end in range(16, 20)]


def test_of_reports_that_were_read_only_the_last_stay() -> None:
    """Large flushes, read at once: what is held is about the last report of each member, not 64 flushes."""
    model = Model()
    for number in range(MEMBERS):
        model.readers.append((model.ledger.join(number), 0))
    for _ in range(40):
        model.write(dict.fromkeys(range(3), 2000), {3: 2000}, None)
        for reader, _ in model.readers:
            model.ledger.read(reader, written_out)
    assert sum(entry.rows for entry in model.ledger._kept.values()) < 40_000
    for number in range(4):
        last = model.ledger.last(number)
        assert last is not None
        assert written_out(last)[-1].column(1)[-1].as_py() == model.said[number][-1]


def test_a_last_report_keeps_its_answer_when_others_are_let_go() -> None:
    """Queries that report seldom keep their lookups beside those that report often, read or not."""
    engine = pw.Engine()
    engine.execute(STREAM)
    windows = {"often": "RANGE 2 SECONDS SLIDE 1 SECOND", "seldom": "RANGE 3000 SECONDS SLIDE 3000 SECONDS"}
    for name, window in windows.items():
        engine.execute(f"CREATE QUERY {name} AS SELECT k, COUNT(*) AS n FROM t [{window}] GROUP BY k")
    for i in range(12):
        engine.push("t", [row(i * 1000 + j, "ab"[j % 2]) for j in range(1000)])
        engine.results("often")
        engine.results("seldom")
    assert engine.lookup("seldom")["n"].to_pylist() == [1500, 1500]
    assert engine.lookup("often")["n"].to_pylist() == [1, 1]


def test_what_waited_at_a_snapshot_is_given_up_before_what_came_after_it() -> None:
    engine = pw.Engine(unread_bytes=2_000)
    engine.execute("CREATE STREAM u (ts TIMESTAMP, v BIGINT) WITH (epoch = 'microseconds', late = 'drop')")
    # The result with the number n is n.
    engine.execute("CREATE QUERY n AS SELECT SUM(v) AS s FROM u [RANGE 1 SECOND SLIDE 1 SECOND]")
    found: dict[int, int] = {}
    for part in range(8):
        for second in range(50 * part, 50 * part + 50):
            engine.push("u", {"ts": second * 1_000_000, "v": second})
        engine.stats()
        if part == 4:
            engine = pw.Engine.restore(engine.snapshot(), pw.Engine(unread_bytes=2_000))
    engine.hand_over("n", lambda table, first: found.update(enumerate(table["s"].to_pylist(), first)))
    assert list(found) == list(found.values()) == list(range(min(found), 399))
    assert 0 < min(found) == engine.stats()["queries"]["n"]["results_unread_dropped"]

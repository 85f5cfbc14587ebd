"""Where queries are placed: by their nodes, and by what those that run have in common with them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from panewise.catalog import Catalog
from panewise.engine.books.definitions import definition_of
from panewise.language import statements as s
from panewise.language.bind.binder import bind_one, parse
from panewise.optimize.node_of_plan import physical
from panewise.optimize.placing import Placing, shareable_parts
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import PhysicalQuery, Way
from panewise.plan.placement import Placement

BUCKETS = 5
STREAMS = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, v BIGINT)"
THETA = "FROM a [RANGE {0} SECONDS{1}] AS x, b [RANGE {0} SECONDS{1}] AS y WHERE x.v < y.v"
PAIRS = f"SELECT x.k {THETA.format(9, '')}"
SPREAD = f"SELECT MAX(x.v) AS m, MIN(y.v) AS n {THETA.format(4, ' SLIDE 2 SECONDS')}"


@dataclass(frozen=True)
class Running:
    plan: Emit
    node: PhysicalQuery
    placement: Placement


class Host:
    """Queries that are placed one after the other."""

    def __init__(self, sharing: str = "weave", by_name: bool = False) -> None:
        self.catalog, self.sharing, self.by_name = Catalog(), sharing, by_name
        self.running: dict[str, Running] = {}
        self.placing = Placing(BUCKETS, {"a": "a@0", "b": "b@1"}, self.running)
        for name in "ab":
            self._define(STREAMS.format(name))

    def _define(self, text: str) -> Emit | None:
        statement = bind_one(parse(text)[0], self.catalog, lambda name: _aggregate(name), [])
        assert isinstance(statement, s.CreateStream | s.CreateQuery)
        definition, plan = definition_of(statement, _aggregate)
        self.catalog.add(definition)
        return plan

    def create(self, name: str, text: str) -> Placement:
        plan = self._define(f"CREATE QUERY {name} AS {text}")
        assert plan is not None
        node = physical(plan, (), self.sharing, name)
        placement = self.placing.placement(name, plan, node, self.by_name)
        self.running[name] = Running(plan, node, placement)
        return placement

    def drop(self, name: str) -> None:
        del self.running[name]
        self.catalog.drop(name, "query")


def _aggregate(name: str) -> object:
    from panewise.aggregates import builtin as registry

    return registry.find(name)


def shards_of(host: Host, text: str) -> set[int]:
    """The shards of eight queries with other names."""
    return {host.create(f"query_{number}", text).shard for number in range(8)}


def test_queries_over_one_core_are_together() -> None:
    host = Host()
    pairs = host.create("pairs", PAIRS)
    assert (pairs.way, pairs.buckets, pairs.streams) == (Way.TOGETHER, 1, ("a@0", "b@1"))
    assert shards_of(host, SPREAD) == {pairs.shard}


@pytest.mark.parametrize("host", [Host("none"), Host(by_name=True)])
def test_queries_that_share_nothing_are_spread_by_their_names(host: Host) -> None:
    host.create("pairs", PAIRS)
    assert len(shards_of(host, SPREAD)) > 2


def test_queries_of_one_family_are_together() -> None:
    host = Host()
    first = host.create("counted", "SELECT k, SUM(v) AS s FROM a [ROWS 5 SLIDE 2] GROUP BY k")
    assert first.way is Way.TOGETHER
    assert shards_of(host, "SELECT k, MAX(v) AS m FROM a [ROWS 9 SLIDE 3] GROUP BY k") == {first.shard}
    others = Host()
    others.create("counted", "SELECT k, SUM(v) AS s FROM a [ROWS 5 SLIDE 2] GROUP BY k")
    wheres = {
        others.create(f"w{n}", f"SELECT SUM(v) AS s FROM a [ROWS 5 SLIDE 2] WHERE v > {n}").shard for n in range(9)
    }
    assert len(wheres) > 2


def test_queries_in_parentheses_count_by_the_families_that_they_are_in() -> None:
    """What is made of them is each query's own."""
    host = Host()
    inner = "(SELECT k, COUNT(*) AS n FROM a [RANGE 3 S SLIDE 1 S]{} GROUP BY k)"
    first = host.create("first", f"SELECT SUM(n) AS n FROM {inner.format('')} [ROWS 5 SLIDE 1]")
    assert shards_of(host, f"SELECT n FROM {inner.format('')} [ROWS 5]") == {first.shard}
    sources = f"{inner.format('')} [ROWS 5] AS x, {inner.format(' WHERE v > 1')} [ROWS 5] AS y"
    joined = f"SELECT x.n FROM {sources} WHERE x.n < y.n"
    assert host.create("joined", joined) == first
    assert host.create("other", f"SELECT n FROM {inner.format(' WHERE v > 1')} [ROWS 5]") == first
    others = [f"SELECT n FROM {inner.format(f' WHERE v > {number}')} [ROWS 5]" for number in range(2, 10)]
    assert len({host.create(f"other_{number}", text).shard for number, text in enumerate(others)}) > 2
    assert [len(shareable_parts(host.running[name].node)) for name in ("first", "joined", "other")] == [1, 2, 1]


def test_company_that_has_gone_is_not_looked_for_in_vain() -> None:
    host = Host()
    first, second = host.create("pairs", PAIRS), host.create("spread", SPREAD)
    host.drop("pairs")
    assert host.create("third", PAIRS) == first == second
    for name in ("spread", "third"):
        host.drop(name)
    assert host.create("pairs", PAIRS) == first
    assert len({host.create(name, SPREAD).shard for name in ("u", "w", "x", "y")}) == 1


def test_a_query_is_where_the_one_is_that_it_reads() -> None:
    host = Host()
    counted = host.create("counted", "SELECT SUM(v) AS s FROM a [ROWS 5 SLIDE 2]")
    assert shards_of(host, "SELECT MAX(s) AS m FROM counted [ROWS 3 SLIDE 1]") == {counted.shard}


def test_what_is_folded_or_exchanged_is_placed_by_its_keys() -> None:
    host = Host()
    grouped = "SELECT k, v, SUM(v) AS s FROM a [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY {}"
    forth, back = host.create("forth", grouped.format("k, v")), host.create("back", grouped.format("v, k"))
    assert forth == back and (forth.way, forth.buckets, len(forth.keys)) == (Way.FOLDED, BUCKETS, 2)
    total = host.create("total", "SELECT SUM(v) AS s FROM a [RANGE 5 SECONDS SLIDE 1 SECOND]")
    assert (total.way, total.buckets) == (Way.FOLDED, 1)
    joined = "SELECT x.k, x.v FROM a [RANGE 5 SECONDS] AS x, b [RANGE {} SECONDS] AS y WHERE x.k = y.k"
    one, other = host.create("one", joined.format(5)), host.create("other", joined.format(9))
    assert one == other and (one.way, one.buckets, len(one.exchanged_by)) == (Way.EXCHANGED, BUCKETS, 2)

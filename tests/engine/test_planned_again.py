"""Plans that come back: what the planner has decided is written down, and runs again whatever is measured then.

The host goes from plan to plan by one operation, and its plan says what runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import panewise as pw
from panewise.engine.books import measured_statistics as measured
from panewise.engine.books.books import Books
from panewise.engine.hosting.query_registry import QueryRegistry
from panewise.engine.recovery.engine_snapshot import decided_in
from panewise.engine.statements import query_plans
from panewise.errors import SnapshotError
from panewise.optimize.joins import reordering
from panewise.optimize.rewrites import rewriting
from panewise.optimize.rewrites.statistics import Statistics
from panewise.optimize.sharing.weave import weaver
from panewise.plan.decided import Decided, decided_on
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import DeltaQuery, Difference, FamilyQuery
from panewise.state.snapshot_format import dumped, loaded
from tests.engine.archives.archive_plays import STREAM as ARCHIVED
from tests.engine.archives.archive_plays import kill
from tests.engine.archives.test_archive_history import archive_at
from tests.engine.small_engine import COUNTS, SECOND, STREAM, SUMS, engine_of

STREAMS = "; ".join(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT, w STRING)" for name in "abc")
SLOW, FAST = {"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1e5, "b": 1e5, "c": 1e5}
MIDDLE_FAST, MIDDLE_SLOW = {**SLOW, "b": 1e5}, {**FAST, "b": 1.0}
DISTINCT = "SELECT DISTINCT a.k, b.v FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
QUERIES = {
    "rewritten": DISTINCT,
    "ordered": "SELECT a.k, b.v FROM a [RANGE 10 SECONDS], b [RANGE 5 SECONDS], c [RANGE 1 MINUTE] "
    "WHERE a.k = b.k AND b.w = c.w AND a.v = c.v",
    "negated": "SELECT a.k, b.v FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k AND NOT EXISTS "
    "(SELECT 1 FROM c [RANGE 5 SECONDS] WHERE c.k = a.k)",
    "inside": f"SELECT COUNT(*) AS n FROM ({DISTINCT.replace('DISTINCT', 'ISTREAM DISTINCT')}) [RANGE 9 SECONDS]",
}


def measuring(monkeypatch: pytest.MonkeyPatch, rates: dict[str, float]) -> None:
    """Whoever plans from now on is told these rates."""

    def said(plan: Emit, books: Books) -> Statistics:
        return Statistics(rates=rates)

    monkeypatch.setattr(query_plans, "measured", said)


def create(engine: pw.Engine, prefix: str = "") -> None:
    for name, text in QUERIES.items():
        engine.execute(f"CREATE QUERY {prefix}{name} AS {text}")


def explained(engine: pw.Engine, prefix: str = "") -> dict[str, str]:
    return {name: str(engine.explain(prefix + name)) for name in QUERIES}


def decided(engine: pw.Engine) -> dict[str, Any]:
    return {name: decided_on(planned.node) for name, planned in engine.hosting.plan.queries.items()}


# -- what was decided comes back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize(("then", "now"), [(FAST, SLOW), (SLOW, FAST), (MIDDLE_FAST, MIDDLE_SLOW)])
def test_a_folder_runs_the_same_plans_under_opposite_statistics(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    then: dict[str, float],
    now: dict[str, float],
    snapshot: bool,
) -> None:
    measuring(monkeypatch, then)
    engine = pw.Engine(tmp_path)
    engine.execute(STREAMS)
    create(engine)
    plan, before = engine.hosting.plan, explained(engine)
    engine.close(snapshot=snapshot)
    measuring(monkeypatch, now)
    with pw.Engine(tmp_path) as again:
        assert explained(again) == before
        assert again.hosting.plan == plan
        create(again, "new_")
        assert explained(again, "new_") != before


def test_state_goes_on_under_opposite_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows before and after, against an engine that was never closed."""
    measuring(monkeypatch, FAST)
    whole, cut = pw.Engine(), pw.Engine(tmp_path)
    for engine in (whole, cut):
        engine.execute(STREAMS)
        create(engine)
    for second in range(40):
        if second == 20:
            measuring(monkeypatch, SLOW)
            cut.close()
            cut = pw.Engine(tmp_path)
        for stream in "abc":
            row = {"ts": second * SECOND, "k": second % 3, "v": second % 5, "w": "x"}
            whole.push(stream, row)
            cut.push(stream, row)
        for name in QUERIES:
            assert cut.results(name).equals(whole.results(name)), (second, name)
    cut.close()


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_rule_that_is_gone_refuses_a_folder_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: bool
) -> None:
    measuring(monkeypatch, FAST)
    engine = pw.Engine(tmp_path)
    engine.execute(STREAMS)
    create(engine)
    engine.execute(f"CREATE QUERY last AS {DISTINCT}")  # the last record is refused too
    engine.close(snapshot=snapshot)
    with monkeypatch.context() as later:
        left = {rule: name for rule, name in rewriting.NAMES.items() if name != "push down distinct"}
        later.setattr(rewriting, "NAMES", left)
        with pytest.raises(SnapshotError, match="'push down distinct', cannot be repeated"):
            pw.Engine(tmp_path)
    with pw.Engine(tmp_path) as again:
        assert "rewritten: push down distinct" in str(again.explain("last"))


def test_the_last_record_of_a_log_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring(monkeypatch, FAST)
    engine = pw.Engine(tmp_path)
    engine.execute(f"{STREAMS}; CREATE QUERY q AS {DISTINCT}")
    engine.close(snapshot=False)
    monkeypatch.setattr(rewriting, "NAMES", {})
    with pytest.raises(SnapshotError, match=r"record .* of the log cannot be replayed .*'q'"):
        pw.Engine(tmp_path)


def test_a_snapshot_of_before_plans_were_written_down_is_planned_by_assumptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_of(STREAMS)
    create(engine)
    two = "CREATE QUERY two AS SELECT SUM(v) AS s FROM a [RANGE 20 SECONDS SLIDE 2 SECONDS]"
    seven = two.replace("two", "seven WITH (refresh = 'at_most')").replace("SLIDE 2", "SLIDE 7")
    engine.execute(f"{two}; {seven}; DROP QUERY two")
    tree = loaded(engine.snapshot())
    assert tree.pop("decided") and tree["slides_at_most"] == {"seven": 6 * SECOND}
    measuring(monkeypatch, FAST)
    again = pw.Engine.restore(dumped(tree))
    assert again.hosting.plan == engine.hosting.plan
    assert decided(again)["seven"].slide_us == 6 * SECOND


def test_an_older_snapshot_says_which_queries_begin_with_the_past() -> None:
    tree = {"slides_at_most": {"p": 6}, "with_history": ["p", "q\x002", "q\x002\x001", "r"]}
    inner = Decided(with_past=True, inner=(Decided(with_past=True),))
    assert decided_in(tree) == {
        "p": Decided(6, with_past=True),
        "q": Decided(inner=(Decided(), inner)),
        "r": Decided(with_past=True),
    }
    assert decided_in({**tree, "decided": {"p": {"slide": 5}}}) == {"p": Decided(5)}


# -- what is measured -----------------------------------------------------------------------------------------------


def test_rates_are_measured_from_enough_rows_on_and_rows_of_tables_as_they_are() -> None:
    engine = engine_of(STREAMS, "CREATE TABLE t (k BIGINT PRIMARY KEY); CREATE TABLE none (k BIGINT PRIMARY KEY)")
    engine.execute("INSERT INTO t VALUES (1), (2), (3)")
    for stream, rows in (("a", measured.MEASURED_FROM), ("b", measured.MEASURED_FROM - 1)):
        engine.push(stream, [{"ts": n * SECOND // 4, "k": n, "v": 0, "w": ""} for n in range(rows)])
    text = (
        "SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], t, none AS n WHERE a.k = b.k AND a.k = t.k AND n.k = 1"
    )
    found: list[Statistics] = []
    original = query_plans.measured
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_plans, "measured", lambda *given: found.append(original(*given)) or found[-1])
        engine.execute(f"CREATE QUERY q AS {text}")
    assert found[0].rates == {"a": pytest.approx(4, rel=0.01)}
    assert found[0].table_rows == {"t": 3.0}


# -- one operation --------------------------------------------------------------------------------------------------


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[Difference]:
    """The differences that hosts apply."""
    found: list[Difference] = []
    change: Callable[..., None] = QueryRegistry.change

    def noted(hosting: QueryRegistry, difference: Difference, *others: Any) -> None:
        found.append(difference)
        change(hosting, difference, *others)

    monkeypatch.setattr(QueryRegistry, "change", noted)
    return found


def test_queries_come_and_go_by_differences_of_the_plan(changes: list[Difference]) -> None:
    engine = engine_of(STREAM, SUMS, COUNTS)
    engine.execute("DROP QUERY q")
    assert [(change.going, list(change.coming)) for change in changes] == [((), ["q"]), ((), ["c"]), (("q",), [])]
    assert list(engine.hosting.plan.queries) == ["c"]


def test_a_family_is_woven_anew_by_a_difference_of_the_plan(changes: list[Difference]) -> None:
    engine = engine_of(STREAM)
    windows = [(3600, 60), (59, 59), (61, 61), (67, 67), (71, 71), (73, 73), (79, 79), (83, 83), (89, 89), (97, 97)]
    for number, (range_, slide) in enumerate(windows):
        window = f"[RANGE {range_} SECONDS SLIDE {slide} SECONDS]"
        engine.execute(f"CREATE QUERY q{number} AS SELECT k, SUM(v) AS s, MAX(v) AS m FROM t {window} GROUP BY k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weaver, "WORTH", 1e9)  # any weave is worth the change
        engine.push("t", [{"ts": n * SECOND, "k": str(n % 9), "v": n, "x": 0.0} for n in range(300)])
        engine.results("q0")
    woven = [change.woven for change in changes if change.woven]
    assert woven
    (key,) = woven[-1]
    assert engine.hosting.plan.families[key] == tuple(f"q{number}" for number in range(len(windows)))
    (family,) = engine.hosting.families
    assert [[m.name for m in tree.members] for tree in family.family.plan.trees if tree.members] == [
        [m.name for m in tree.members] for tree in woven[-1][key].trees if tree.members
    ]


@pytest.mark.parametrize("shared", [False, True])
def test_a_join_is_reordered_by_a_difference_of_the_plan(
    shared: bool, changes: list[Difference], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`shared`: it is the core of two queries; else each has one of its own."""
    monkeypatch.setattr(reordering, "LOOK_FROM", 60)
    monkeypatch.setattr(reordering, "DRIFT", 1.0001)
    text = "SELECT a.k, b.v FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], c [RANGE 9 SECONDS] WHERE a.k = b.k AND "
    text += "b.k = c.k" if shared else "b.k = c.k AND EXISTS (SELECT 1 FROM c [RANGE 1 SECOND] AS d WHERE d.k = a.k)"
    engine = pw.Engine(tmp_path)
    engine.execute(STREAMS)
    for name in ("q", "r"):
        engine.execute(f"CREATE QUERY {name} AS {text}")
    before = engine.hosting.plan
    for second in range(30):
        engine.push("b", [{"ts": second * SECOND + n, "k": n % 50, "v": n, "w": ""} for n in range(100)])
        engine.push("a", {"ts": second * SECOND, "k": second % 50, "v": 0, "w": ""})
        engine.push("c", {"ts": second * SECOND, "k": second % 50, "v": 0, "w": ""})
        engine.results("q")
    plan = engine.hosting.plan
    ordered = [change.ordered for change in changes if change.ordered]
    assert ordered and plan.queries == before.queries
    assert {key: orders for each in ordered for key, orders in each.items()} == plan.ordered
    assert len(plan.ordered) == (1 if shared else 2)
    engine.close()
    with pw.Engine(tmp_path) as again:
        assert again.hosting.plan == plan
        again.execute("DROP QUERY r")
        assert len(again.hosting.plan.ordered) == 1
        again.execute("DROP QUERY q")
        assert not again.hosting.plan.ordered


def test_a_query_that_begins_with_the_past_is_alone_in_the_plan(tmp_path: Path) -> None:
    engine = pw.Engine(tmp_path / "engine", sync="never")
    engine.execute(ARCHIVED)
    text = "CREATE QUERY {} AS SELECT k, SUM(v) AS s FROM t [RANGE {} SECONDS SLIDE 4 SECONDS] GROUP BY k"
    engine.execute(text.format("short", 4))
    engine.execute(archive_at(tmp_path / "archive"))
    engine.push("t", [{"ts": second * SECOND, "k": "a", "n": 1, "v": second} for second in range(60)])
    engine.execute(text.format("long", 40))
    plan = engine.hosting.plan
    assert sorted(plan.families.values()) == [("long",), ("short",)]
    node = plan.queries["long"].node
    assert isinstance(node, FamilyQuery) and (node.with_past, node.shape.alone) == (True, "long")
    assert "begins with: rows of the past, alone" in str(engine.explain("long"))
    kill(engine)
    with pw.Engine(tmp_path / "engine") as again:
        assert again.hosting.plan == plan


# -- EXPLAIN --------------------------------------------------------------------------------------------------------

PAIR_SUMS = (
    "SELECT a.k, SUM(b.v) AS s FROM a [RANGE 5 SECONDS SLIDE 1 SECOND], b [RANGE {} SECONDS SLIDE 1 SECOND] "
    "WHERE a.k = b.k GROUP BY a.k"
)


@pytest.mark.parametrize(("sharing", "said"), [("weave", "shared with 1 other query"), ("none", "alone")])
def test_explain_of_a_select_plans_as_this_host_would(sharing: str, said: str) -> None:
    engine = pw.Engine(sharing=sharing)
    engine.execute(STREAMS)
    sums = "SELECT k, SUM(v) AS s FROM a [RANGE {} SECONDS SLIDE 1 SECOND] GROUP BY k"
    for name, text in (("p", sums), ("j", PAIR_SUMS)):
        engine.execute(f"CREATE QUERY {name} AS {text.format(3)}")
        shown = engine.execute(f"EXPLAIN {text.format(4)}")
        assert shown is not None
        assert f": {said}" in shown["plan"][0].as_py()
    assert list(engine.hosting.plan.queries) == ["p", "j"]


def test_a_core_that_queries_share_is_priced_once() -> None:
    engine = engine_of(STREAMS, f"CREATE QUERY q AS {PAIR_SUMS.format(3)}")

    def costs(query: str) -> tuple[int, str]:
        said = engine.explain(query).properties
        return int(said["cost of all"]), str(said.get("cost of the core", ""))

    alone, _ = costs("q")
    engine.execute(f"CREATE QUERY r AS {PAIR_SUMS.format(3)}; CREATE QUERY s AS {PAIR_SUMS.format(3)}")
    shared, core = costs("q")
    assert core.endswith(", shared by 3 queries")
    assert alone - shared == pytest.approx(int(core.split(",")[0]) * 2 / 3, abs=1)
    assert costs("r") == costs("s") == (shared, core)
    engine.execute("DROP QUERY r; DROP QUERY s")
    assert costs("q") == (alone, "")


def test_the_plan_of_a_host_says_what_runs_of_several_inputs() -> None:
    engine = engine_of(STREAMS, f"CREATE QUERY q AS {PAIR_SUMS.format(3)}; CREATE QUERY r AS {PAIR_SUMS.format(9)}")
    plan = engine.hosting.plan
    assert list(plan.cores.values()) == [("q", "r")]
    for planned in plan.queries.values():
        assert isinstance(planned.node, DeltaQuery) and planned.node.folds

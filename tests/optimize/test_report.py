"""What sharing did, in words and as data: short for thousands of queries, complete for a few, true in both."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.optimize.sharing.report.report_texts import (
    cost_text,
    count_text,
    duration_text,
    rate_text,
    saving_text,
    some_of,
)
from panewise.optimize.sharing.report.sharing_report import (
    FAMILIES_SHOWN_MAX,
    MEMBERS_SHOWN_MAX,
    TREES_SHOWN_MAX,
    WINDOWS_SHOWN_MAX,
    FamilyReport,
    SharingReport,
    TreeReport,
    explanation,
    spans,
    tree_explanation,
)
from panewise.temporal import SECOND, TimeWindow, duration_us


def window(range_s: int, slide_s: int) -> str:
    return str(TimeWindow(range_s * SECOND, slide_s * SECOND))


def tree(number: int, windows: list[str], cost: float = 1e6) -> TreeReport:
    members = tuple((f"q{number}_{i}", text) for i, text in enumerate(windows))
    return TreeReport(f"tree {number}", {"MAX(price)": "b_int"}, members, 2.0, 60, cost)


def family(trees: list[TreeReport], cost: float = 5e6, **changed: object) -> FamilyReport:
    values = {
        "stream": "trades",
        "grouping": "symbol",
        "selections": ("size > 100",),
        "states": ("MAX(price)",),
        "rows_per_second": 10_000.0,
        "groups": 100,
        "composite_edges_per_second": 2.5,
        "trees": tuple(trees),
        "cost": cost,
        "cost_alone": 12.4 * cost,
        "cost_full": 1.3 * cost,
    }
    return FamilyReport(**(values | changed))  # type: ignore[arg-type]


def test_few_queries_have_a_line_each() -> None:
    report = SharingReport((family([tree(1, [window(60, 1), window(90, 1)]), tree(2, [window(70, 7)])]),), "weave")
    rates = "rows: 10,000 per second, groups: 100"
    saving = "12.4 times cheaper than each query alone, 1.3 times cheaper than one tree for all"
    others = "alone: 62 ms per second, one tree: 6.5 ms per second"
    assert str(explanation(report)).splitlines() == [
        "PLAN  <sharing: weave, queries: 3, trees: 2, cost: 5 ms per second (0.5 % of a core)>",
        "  STREAM trades",
        f"    FAMILY BY symbol WHERE size > 100  <queries: 3, trees: 2, states: MAX(price), {rates}>",
        f"      COST 5 ms per second (0.5 % of a core): {saving}  <{others}>",
        "      FOLD rows into slices  <edges: 2.5 per second, cost: 3 ms per second>",
        "      TREE 1  <queries: 2, edges: 2 per second, slices: 60, technique: b_int, cost: 1 ms per second>",
        "        QUERY q1_0  <window: [RANGE 1 MINUTE SLIDE 1 SECOND]>",
        "        QUERY q1_1  <window: [RANGE 90 SECONDS SLIDE 1 SECOND]>",
        "      TREE 2  <queries: 1, edges: 2 per second, slices: 60, technique: b_int, cost: 1 ms per second>",
        "        QUERY q2_0  <window: [RANGE 70 SECONDS SLIDE 7 SECONDS]>",
    ]


def test_thousands_of_queries_are_summed_up_by_window() -> None:
    windows = (
        [window(60, 1)] * 240 + [window(90, 5)] * 200 + [window(3600, 10)] * 2 + [window(30, 1 + i) for i in range(9)]
    )
    lines = str(tree_explanation(tree(1, windows))).splitlines()
    assert "windows: 12, ranges: 30 SECONDS to 1 HOUR, slides: 1 SECOND to 10 SECONDS" in lines[0]
    assert lines[1:] == [
        "  240 QUERIES [RANGE 1 MINUTE SLIDE 1 SECOND]",
        "  200 QUERIES [RANGE 90 SECONDS SLIDE 5 SECONDS]",
        "  2 QUERIES [RANGE 1 HOUR SLIDE 10 SECONDS]",
        "  9 QUERIES with 9 other windows",
    ]


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=MEMBERS_SHOWN_MAX + 1, max_size=120))
def test_a_summary_accounts_for_every_query_and_its_spans_hold(pairs: list[tuple[int, int]]) -> None:
    explained = tree_explanation(tree(1, [window(r, s) for r, s in pairs]))
    counts = [int(re.match(r"\d+", line.title)[0]) for line in explained.inputs]  # type: ignore[index]
    assert len(counts) <= WINDOWS_SHOWN_MAX + 1
    distinct = len(set(pairs))
    assert sum(counts) == (len(pairs) if counts else 0)
    assert bool(counts) == (distinct < len(pairs))
    assert explained.properties["windows"] == str(distinct)
    for name, values in (("ranges", [r for r, _ in pairs]), ("slides", [s for _, s in pairs])):
        ends = [duration_us(text) // SECOND for text in explained.properties[name].split(" to ")]
        assert (ends[0], ends[-1]) == (min(values), max(values))


def test_many_trees_and_families_stay_a_page() -> None:
    families = tuple(
        family([tree(n, [window(60, 1)] * 30, cost=float(n)) for n in range(40)], cost=1e6 + i) for i in range(60)
    )
    report = SharingReport(families, "weave")
    explained = explanation(report)
    shown = explained.inputs[0].inputs
    assert len(shown) == FAMILIES_SHOWN_MAX + 1
    assert shown[-1].title == f"AND {60 - FAMILIES_SHOWN_MAX} OTHER FAMILIES"
    titles = [line.title for line in shown[0].inputs]
    # The trees that cost most are those shown.
    assert [t for t in titles if t.startswith("TREE")] == [f"TREE {n}" for n in range(40 - TREES_SHOWN_MAX, 40)]
    assert titles[-1] == f"AND {40 - TREES_SHOWN_MAX} OTHER TREES"
    assert shown[0].inputs[-1].properties["queries"] == 30 * (40 - TREES_SHOWN_MAX)


def test_several_selections_and_techniques_are_listed() -> None:
    mixed = TreeReport("7", {"MAX(p)": "b_int", "COUNT(*)": "r_int"}, (("q", "[ROWS 10 SLIDE 5]"),), None, None, 0.0)
    text = str(
        explanation(
            SharingReport(
                (family([mixed], selections=("", "size > 1"), grouping="", groups=None, rows_per_second=None),), "full"
            )
        )
    )
    assert "FAMILY OVER 2 SELECTIONS  <queries: 1, trees: 1, states: MAX(price), rows: not measured yet>" in text
    assert "      ALL ROWS\n      WHERE size > 1\n" in text
    assert "TREE 7  <queries: 1, edges: not measured yet, technique: MAX(p) by b_int; COUNT(*) by r_int" in text
    assumed = family([mixed], rows_per_second=None, rows_per_second_assumed=1000.0)
    assert assumed.rows_text == "1,000 per second assumed, none measured yet"


def test_several_families_are_summed_on_the_first_line() -> None:
    report = SharingReport(
        (family([tree(1, [window(1, 1)] * 2)]), family([tree(2, [window(1, 1)])], cost=1e6)), "weave"
    )
    first = str(explanation(report)).splitlines()[0]
    assert "queries: 3, trees: 2, cost: 6 ms per second" in first
    assert "saving: 12.4 times cheaper than each query alone, 1.3 times cheaper than one tree for all" in first


def test_nothing_registered_is_a_plan_too() -> None:
    assert str(explanation(SharingReport((), "weave"))) == (
        "PLAN  <sharing: weave, queries: 0, trees: 0, cost: 0 ns per second>"
    )


def test_the_dict_is_complete_and_json() -> None:
    report = SharingReport((family([tree(1, [window(60, 1)])], rules=("SS1",)),), "weave")
    data = json.loads(json.dumps(report.to_dict()))
    assert data["cost_alone_ns_per_second"] == pytest.approx(12.4 * 5e6)
    assert (data["queries"], data["trees"], data["sharing"]) == (1, 1, "weave")
    (inner,) = data["families"]
    assert inner["rules"] == ["SS1"]
    assert inner["trees"][0]["members"] == [{"query": "q1_0", "window": "[RANGE 1 MINUTE SLIDE 1 SECOND]"}]
    assert inner["trees"][0]["technique"] == {"MAX(price)": "b_int"}


def test_savings_in_words() -> None:
    assert saving_text(2, 1.0, 1.04, 0.97) == "as cheap as each query alone, as cheap as one tree for all"
    assert saving_text(2, 1.0, 1000.4, 0.25) == (
        "1,000 times cheaper than each query alone, 4 times dearer than one tree for all"
    )
    assert saving_text(2, 0.0, 1.0, 1.0) == ""
    assert saving_text(2, 1.0, float("inf"), 1.0) == ""
    assert saving_text(0, 0.0, 0.0, 0.0) == ""


@given(st.floats(1e-3, 1e15, allow_nan=False))
def test_a_duration_reads_back_within_its_digits(nanoseconds: float) -> None:
    number, *words = duration_text(nanoseconds).replace(",", "").split()
    scale = {"million": 1e6, "billion": 1e9}.get(words[0], 1.0)
    unit = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}[words[-1]]
    assert float(number) * scale * unit == pytest.approx(nanoseconds, rel=0.006)
    assert unit == 1e9 or float(number) < 1000


@given(st.floats(1e-6, 1e9, allow_nan=False))
def test_a_rate_reads_back_within_its_digits(per_second: float) -> None:
    match = re.fullmatch(r"([\d,.]+)(?: (million|billion))? per (second|minute|hour|day)", rate_text(per_second))
    assert match is not None
    number = float(match[1].replace(",", "")) * {None: 1.0, "million": 1e6, "billion": 1e9}[match[2]]
    assert number / {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}[match[3]] == pytest.approx(
        per_second, rel=0.006
    )


def test_costs_name_their_share_of_a_core() -> None:
    assert cost_text(1e9) == "1 s per second (1 core)"
    assert cost_text(999e6) == "999 ms per second (99.9 % of a core)"
    assert cost_text(90_000) == "90 us per second"
    assert count_text(float("nan")) == "unknown"


@given(st.lists(st.integers(0, 9)), st.integers(0, 6))
def test_some_of_keeps_order_and_takes_the_heaviest(parts: list[int], most: int) -> None:
    shown, others = some_of(parts, most, float)
    assert len(shown) == min(most, len(parts))
    assert sorted(shown + others) == sorted(parts)
    assert sorted(shown, reverse=True) == sorted(parts, reverse=True)[:most]
    places = iter(parts)
    assert all(part in places for part in shown)


def test_spans_of_rows_and_of_windows_without_any() -> None:
    assert spans(["[ROWS 10 SLIDE 5]", "[PARTITION BY host ROWS 200 SLIDE 5]"]) == {
        "rows": "10 to 200",
        "slides in rows": "5",
    }
    assert spans(["[UNBOUNDED SLIDE 1 MINUTE]"]) == {"slides": "1 MINUTE"}
    assert spans(["[NOW]"]) == {}

"""A report of what is shared, as data. EXPLAIN PLAN prints it and `panewise explain --graph` draws it.

    stream --> family (rows are folded once) --> trees (slices, synopses) --> queries (windows)

A report is a frozen snapshot without operators, made by the host. Costs are estimates of the cost model (Shein and
Chrysanthis 2020, section 3.1.2), in nanoseconds of processor time per second of the stream. The cost of a family is
that of its trees, plus that of folding rows into composite slices.

`explanation` is the text for people, `SharingReport.to_dict` the same for programs. The text stays short for any number
of queries: a tree with few queries has a line for each, a tree with many is summed up by its windows. Cost: one pass
over the members.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from panewise.optimize.sharing.report.report_texts import (
    cost_text,
    count_text,
    counted,
    duration_text,
    rate_text,
    saving_text,
    some_of,
)
from panewise.plan.explanation import Explanation
from panewise.temporal import duration_us, format_duration

MEMBERS_SHOWN_MAX = 24
WINDOWS_SHOWN_MAX = 6
TREES_SHOWN_MAX = 12
FAMILIES_SHOWN_MAX = 24

_SPAN = re.compile(r"\b(RANGE|ROWS|SLIDE) (\d+)(?: ([A-Z]+SECONDS?|SECONDS?|MINUTES?|HOURS?|DAYS?|WEEKS?)\b)?")


@dataclass(frozen=True)
class TreeReport:
    """Queries that share one sequence of slices. `technique`: for every state, the technique that keeps its slices."""

    name: str
    technique: Mapping[str, str]
    members: tuple[tuple[str, str], ...]  # the query's name, its window as text
    edges_per_second: float | None  # None: edges are rows, whose rate was not measured yet
    slices_held: int | None
    cost_ns_per_second: float

    @property
    def windows(self) -> list[tuple[str, int]]:
        """The members' windows with the number of queries of each, the most frequent first."""
        return Counter(window for _, window in self.members).most_common()

    @property
    def number(self) -> str:
        """The name without the word `tree`."""
        return self.name.removeprefix("tree ")

    @property
    def techniques(self) -> str:
        """`b_int` if it keeps every state, otherwise `MAX(price) by b_int; COUNT(*) by r_int`."""
        names = set(self.technique.values())
        if len(names) == 1:
            return names.pop()
        return "; ".join(f"{state} by {name}" for state, name in self.technique.items())

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "technique": dict(self.technique),
            "members": [{"query": query, "window": window} for query, window in self.members],
            "edges_per_second": self.edges_per_second,
            "slices_held": self.slices_held,
            "cost_ns_per_second": self.cost_ns_per_second,
        }


@dataclass(frozen=True)
class FamilyReport:
    """Queries whose rows are folded together. An empty selection is all rows; an empty grouping is one group."""

    stream: str
    grouping: str
    selections: tuple[str, ...]
    states: tuple[str, ...]
    rows_per_second: float | None  # None: not measured yet; then costs are for `rows_per_second_assumed`
    groups: int | None
    composite_edges_per_second: float | None
    trees: tuple[TreeReport, ...]
    cost: float
    cost_alone: float  # of each query alone
    cost_full: float  # of one tree for all
    rules: tuple[str, ...] = ()
    rows_per_second_assumed: float | None = None
    folded_with: str = ""  # other families whose rows are folded in the same pass, in words

    @property
    def query_count(self) -> int:
        return sum(len(tree.members) for tree in self.trees)

    @property
    def fold_cost(self) -> float:
        """The cost of folding rows into slices. What a tree takes in from these slices is part of the tree's cost."""
        return max(0.0, self.cost - sum(tree.cost_ns_per_second for tree in self.trees))

    @property
    def title(self) -> str:
        """`BY symbol WHERE size > 100`; empty if the family neither groups nor selects."""
        parts = [f"BY {self.grouping}"] if self.grouping else []
        if len(self.selections) > 1:
            parts.append(f"OVER {len(self.selections)} SELECTIONS")
        elif any(self.selections):
            parts.append(f"WHERE {self.selections[0]}")
        return " ".join(parts)

    @property
    def rows_text(self) -> str:
        if self.rows_per_second is not None:
            return rate_text(self.rows_per_second)
        if self.rows_per_second_assumed is not None:
            return f"{rate_text(self.rows_per_second_assumed)} assumed, none measured yet"
        return "not measured yet"

    @property
    def saving(self) -> str:
        return saving_text(self.query_count, self.cost, self.cost_alone, self.cost_full)

    def to_dict(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "grouping": self.grouping,
            "selections": list(self.selections),
            "states": list(self.states),
            "rows_per_second": self.rows_per_second,
            "rows_per_second_assumed": self.rows_per_second_assumed,
            "groups": self.groups,
            "composite_edges_per_second": self.composite_edges_per_second,
            "trees": [tree.to_dict() for tree in self.trees],
            **_costs(self.cost, self.cost_alone, self.cost_full),
            "rules": list(self.rules),
            "folded_with": self.folded_with,
        }


@dataclass(frozen=True)
class SharingReport:
    """All families of a host. `sharing` is the host's setting: 'none', 'full' or 'weave'.

    >>> tree = TreeReport("tree 1", {"COUNT(*)": "r_int"}, (("q", "[RANGE 1 MINUTE SLIDE 1 SECOND]"),), 1.0, 60, 2e6)
    >>> family = FamilyReport("trades", "", (), ("COUNT(*)",), 1e4, 1, 1.0, (tree,), 3e6, 3e6, 3e6)
    >>> print(explanation(SharingReport((family,), "weave")))
    PLAN  <sharing: weave, queries: 1, trees: 1, cost: 3 ms per second (0.3 % of a core)>
      STREAM trades
        FAMILY  <queries: 1, trees: 1, states: COUNT(*), rows: 10,000 per second, groups: 1>
          COST 3 ms per second (0.3 % of a core): one query, nothing to share
          FOLD rows into slices  <edges: 1 per second, cost: 1 ms per second>
          TREE 1  <queries: 1, edges: 1 per second, slices: 60, technique: r_int, cost: 2 ms per second>
            QUERY q  <window: [RANGE 1 MINUTE SLIDE 1 SECOND]>
    """

    families: tuple[FamilyReport, ...]
    sharing: str

    @property
    def query_count(self) -> int:
        return sum(family.query_count for family in self.families)

    @property
    def tree_count(self) -> int:
        return sum(len(family.trees) for family in self.families)

    @property
    def cost(self) -> float:
        return sum(family.cost for family in self.families)

    @property
    def cost_alone(self) -> float:
        return sum(family.cost_alone for family in self.families)

    @property
    def cost_full(self) -> float:
        return sum(family.cost_full for family in self.families)

    @property
    def saving(self) -> str:
        # "One tree for all" means for all queries of a family, because families cannot share slices.
        return saving_text(self.query_count, self.cost, self.cost_alone, self.cost_full)

    def by_stream(self) -> dict[str, list[FamilyReport]]:
        streams: dict[str, list[FamilyReport]] = {}
        for family in self.families:
            streams.setdefault(family.stream, []).append(family)
        return streams

    def to_dict(self) -> dict[str, Any]:
        return {
            "sharing": self.sharing,
            "queries": self.query_count,
            "trees": self.tree_count,
            **_costs(self.cost, self.cost_alone, self.cost_full),
            "families": [family.to_dict() for family in self.families],
        }


def _costs(cost: float, alone: float, full: float) -> dict[str, float]:
    return {"cost_ns_per_second": cost, "cost_alone_ns_per_second": alone, "cost_full_ns_per_second": full}


def explanation(report: SharingReport) -> Explanation:
    """The whole report: streams, their families, the trees of these, and the queries or windows of each tree."""
    properties: dict[str, Any] = {
        "sharing": report.sharing,
        "queries": report.query_count,
        "trees": report.tree_count,
        "cost": cost_text(report.cost),
    }
    # If there is only one family, its own line says this.
    if len(report.families) > 1 and report.saving:
        properties["saving"] = report.saving
    streams = (
        Explanation(f"STREAM {stream}", {}, families_explanation(families))
        for stream, families in report.by_stream().items()
    )
    return Explanation("PLAN", properties, tuple(streams))


def families_explanation(families: Iterable[FamilyReport]) -> tuple[Explanation, ...]:
    """A line for each family with its trees below. If there are very many, only the most expensive have their own."""
    shown, others = some_of(families, FAMILIES_SHOWN_MAX, lambda family: family.cost)
    lines = [family_explanation(family) for family in shown]
    if others:
        queries = sum(family.query_count for family in others)
        properties = {"queries": queries, "cost": _cost(sum(family.cost for family in others))}
        lines.append(Explanation(f"AND {count_text(len(others))} OTHER FAMILIES", properties))
    return tuple(lines)


def family_explanation(family: FamilyReport) -> Explanation:
    """One family: what its queries have in common, what sharing saves, the fold, and the trees."""
    properties: dict[str, Any] = {
        "queries": family.query_count,
        "trees": len(family.trees),
        "states": ", ".join(family.states),
        "rows": family.rows_text,
    }
    if family.groups is not None:
        properties["groups"] = count_text(family.groups)
    if family.rules:
        properties["rules"] = ", ".join(family.rules)
    fold = {"edges": _edges(family.composite_edges_per_second), "cost": _cost(family.fold_cost)}
    if family.folded_with:
        fold["together with"] = family.folded_with
    lines = [_cost_line(family), *_selections(family), Explanation("FOLD rows into slices", fold)]
    shown, others = some_of(family.trees, TREES_SHOWN_MAX, lambda tree: tree.cost_ns_per_second)
    lines.extend(tree_explanation(tree) for tree in shown)
    if others:
        rest = {
            "queries": sum(len(tree.members) for tree in others),
            "cost": _cost(sum(tree.cost_ns_per_second for tree in others)),
        }
        lines.append(Explanation(f"AND {count_text(len(others))} OTHER TREES", rest))
    return Explanation(" ".join(filter(None, ("FAMILY", family.title))), properties, tuple(lines))


def _cost_line(family: FamilyReport) -> Explanation:
    title = ": ".join(filter(None, (f"COST {cost_text(family.cost)}", family.saving)))
    if family.query_count < 2:
        return Explanation(title)
    return Explanation(title, {"alone": _cost(family.cost_alone), "one tree": _cost(family.cost_full)})


def _selections(family: FamilyReport) -> list[Explanation]:
    if len(family.selections) < 2:
        return []
    lines = [Explanation(f"WHERE {text}" if text else "ALL ROWS") for text in family.selections[:WINDOWS_SHOWN_MAX]]
    more = len(family.selections) - len(lines)
    return [*lines, Explanation(f"AND {counted(more, 'OTHER SELECTION')}")] if more else lines


def tree_explanation(tree: TreeReport) -> Explanation:
    """One tree with a line for each query or, if there are many, for the most frequent windows."""
    properties: dict[str, Any] = {"queries": len(tree.members), "edges": _edges(tree.edges_per_second)}
    if tree.slices_held is not None:
        properties["slices"] = count_text(tree.slices_held)
    properties["technique"] = tree.techniques
    properties["cost"] = _cost(tree.cost_ns_per_second)
    if len(tree.members) <= MEMBERS_SHOWN_MAX:
        lines = [Explanation(f"QUERY {query}", {"window": window}) for query, window in tree.members]
        return Explanation(f"TREE {tree.number}", properties, tuple(lines))
    windows = tree.windows
    properties["windows"] = count_text(len(windows))
    properties |= spans([window for window, _ in windows])
    # A window of only one query is not listed. If all are such, the number of windows is enough.
    frequent = [(window, n) for window, n in windows[:WINDOWS_SHOWN_MAX] if n > 1]
    lines = [Explanation(f"{counted(n, 'QUERY')} {window}") for window, n in frequent]
    rest = windows[len(frequent) :]
    if frequent and rest:
        title = f"{counted(sum(n for _, n in rest), 'QUERY')} with {counted(len(rest), 'other window')}"
        lines.append(Explanation(title))
    return Explanation(f"TREE {tree.number}", properties, tuple(lines))


def _cost(ns_per_second: float) -> str:
    return f"{duration_text(ns_per_second)} per second"


def _edges(per_second: float | None) -> str:
    return "not measured yet" if per_second is None else rate_text(per_second)


def spans(windows: Iterable[str]) -> dict[str, str]:
    """The least and greatest range, number of rows and slide of some windows.

    >>> spans(["[RANGE 1 MINUTE SLIDE 5 SECONDS]", "[RANGE 30 SECONDS SLIDE 5 SECONDS]", "[ROWS 10 SLIDE 5]"])
    {'ranges': '30 SECONDS to 1 MINUTE', 'slides': '5 SECONDS', 'rows': '10', 'slides in rows': '5'}
    """
    found: dict[str, set[int]] = {}
    for window in windows:
        for word, number, unit in _SPAN.findall(window):
            name = {"RANGE": "ranges", "ROWS": "rows", "SLIDE": "slides" if unit else "slides in rows"}[word]
            found.setdefault(name, set()).add(duration_us(f"{number} {unit}") if unit else int(number))
    texts = {}
    for name, values in found.items():
        form = format_duration if name in ("ranges", "slides") else count_text
        least, greatest = form(min(values)), form(max(values))
        texts[name] = least if least == greatest else f"{least} to {greatest}"
    return texts

"""Each rule of Golab 2006, chapter 8, where it holds and just beside where it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from panewise.aggregates.states import MAXIMUM, SUM_INTEGER, Feed
from panewise.language.expressions import ColumnRef, Literal
from panewise.language.functions import resolve
from panewise.optimize.sharing.rules import (
    RULES,
    Allows,
    Rule,
    SharingQuery,
    Situation,
    SynopsisKind,
    SynopsisType,
    applicable,
    synopsis_type,
)
from panewise.optimize.sharing.selections.selections import Selection, analysed
from panewise.schema import STRING
from panewise.synopses.techniques import TECHNIQUES

RUNNING, INTERVAL, BASIC = SynopsisType.RUNNING, SynopsisType.INTERVAL, SynopsisType.BASIC_INTERVAL
SUM, COUNT = frozenset({"sum"}), frozenset({"count"})


def synopsis(type: SynopsisType = BASIC, states: frozenset[str] = SUM, **changes: object) -> SynopsisKind:
    return replace(SynopsisKind("packets", states, type, interval=10, intervals=8), **changes)


def query(length: int = 80, states: frozenset[str] = SUM, **changes: object) -> SharingQuery:
    return replace(SharingQuery("packets", states, (length,), algebra=SUM_INTEGER.algebra), **changes)


def names_of(rules: Sequence[Rule]) -> str:
    return ", ".join(rule.name for rule in rules)


def holds(*parts: SharingQuery | SynopsisKind) -> str:
    queries = tuple(part for part in parts if isinstance(part, SharingQuery))
    return names_of(applicable(Situation(queries, tuple(part for part in parts if isinstance(part, SynopsisKind)))))


def test_the_table_is_complete() -> None:
    names = [rule.name for rule in RULES]
    assert sorted(names) == sorted([*(f"SS{n}" for n in range(1, 5)), *(f"CS{n}" for n in range(1, 9))])
    assert all((rule.allows is Allows.STATE) == rule.name.startswith("SS") for rule in RULES)
    assert [rule.name for rule in RULES if rule.trades_time_for_space] == ["SS4", "CS6", "CS7"]


def test_one_synopsis_and_several_window_lengths() -> None:
    assert holds(query(80), query(50), synopsis(BASIC)) == "SS1, CS2"
    assert holds(query(80), query(50), synopsis(RUNNING)) == "SS1"
    assert holds(query(50), query(50), synopsis(RUNNING)) == "SS1, CS1"
    assert holds(query(50), query(50), synopsis(INTERVAL)) == "SS1, CS1"
    assert holds(query(80), synopsis()) == "SS1"
    assert holds(query(90), synopsis()) == ""  # longer than the synopsis
    assert holds(query(45), synopsis()) == ""  # not a multiple of its interval
    assert holds(query(80, source="flows"), synopsis()) == ""
    assert holds(query(80, COUNT), synopsis()) == ""
    assert holds(query(80, COUNT), synopsis(states=SUM | COUNT)) == "SS1"


def test_an_average_of_a_sum_and_a_count() -> None:
    sums, counts = synopsis(RUNNING), synopsis(RUNNING, COUNT, intervals=6)
    average = query(60, SUM | COUNT)
    assert holds(average, sums, counts) == "SS2"
    assert holds(query(60), query(60, COUNT), average, sums, counts) == "SS2, CS3"
    assert holds(query(50), query(60, COUNT), average, sums, counts) == "SS2"
    assert holds(query(70, SUM | COUNT), sums, counts) == ""  # the counts reach back 60
    assert holds(average, sums, replace(counts, phase=3)) == ""  # not updated at the same times
    assert holds(average, sums, replace(counts, phase=20)) == "SS2"
    assert holds(average, sums, replace(counts, interval=5, intervals=12)) == ""


def join(*lengths: int) -> SharingQuery:
    return query(lengths=lengths)


def test_joins() -> None:
    generalized = synopsis(BASIC, flagged=2)
    assert holds(join(30, 30), generalized) == "SS3"
    assert holds(join(70, 80), generalized) == "SS3"
    assert holds(join(60, 80), generalized) == "SS3"
    assert holds(join(50, 80), generalized) == ""  # b - g is 6
    assert holds(join(70, 80), synopsis(BASIC, flagged=0)) == ""
    assert holds(join(90, 90), generalized) == ""
    assert holds(join(70, 70, 70), generalized) == "SS3"
    assert holds(join(70, 70, 80), generalized) == ""  # only the two windows of a join are told apart
    assert holds(join(80, 80), synopsis()) == ""  # intervals by arrival, not by expiration
    assert holds(query(80), generalized) == ""
    assert holds(join(70, 80), join(30, 30), generalized) == "SS3, CS5"
    assert holds(join(70, 80), join(30, 30), replace(generalized, type=RUNNING)) == "SS3"
    assert holds(join(70, 80), join(70, 80), replace(generalized, type=RUNNING)) == "SS3, CS4"
    assert holds(join(70, 80), join(80, 70), replace(generalized, type=INTERVAL)) == "SS3"


def of_protocol(*names: str) -> Selection:
    protocol = ColumnRef(STRING, "protocol")
    return analysed(resolve("in", (protocol, *(Literal(STRING, name) for name in names))))


TCP, UDP, BOTH = of_protocol("TCP"), of_protocol("UDP"), of_protocol("UDP", "TCP")


@pytest.mark.parametrize(("type", "rule"), [(BASIC, "CS7"), (RUNNING, "CS6"), (INTERVAL, "CS6")])
def test_selections(type: SynopsisType, rule: str) -> None:
    kept = synopsis(type, selection=TCP), synopsis(type, selection=UDP)
    candidates = query(selection=TCP), query(selection=UDP)
    assert holds(query(selection=BOTH), *kept) == "SS4"
    assert holds(*candidates, query(selection=BOTH), *kept) == f"SS4, {rule}"
    assert holds(*candidates, query(60, selection=BOTH), *kept) == ("SS4, CS7" if type is BASIC else "SS4")
    assert holds(query(90, selection=BOTH), *kept) == ""
    assert holds(query(selection=BOTH), kept[0]) == ""
    assert holds(query(selection=BOTH), kept[0], replace(kept[1], phase=5)) == ""
    assert holds(query(selection=TCP), synopsis(type, selection=BOTH), kept[1]) == "SS4"  # by subtraction
    greatest = MAXIMUM[Feed.INTEGER].algebra
    assert holds(query(selection=TCP, algebra=greatest), synopsis(type, selection=BOTH), kept[1]) == ""


def test_a_longer_period() -> None:
    often, seldom = query(period=2), query(period=6)
    assert holds(often, seldom) == "CS8"
    assert holds(seldom, often) == ""
    assert holds(often, replace(seldom, period=5)) == ""
    assert holds(often, replace(seldom, phase=1)) == ""
    assert holds(often, replace(seldom, lengths=(70,))) == ""
    assert holds(often, replace(seldom, output="average")) == ""
    assert holds(often, replace(seldom, selection=TCP)) == ""


def test_a_rule_more_is_one_entry() -> None:
    wide = Rule("X1", "any two queries of one stream", Allows.STATE, lambda s: len({q.source for q in s.queries}) == 1)
    situation = Situation((query(), query(40)), (synopsis(),))
    assert names_of(applicable(situation, (*RULES, wide))) == "SS1, CS2, X1"


def test_every_technique_has_a_type() -> None:
    types = {name: synopsis_type(name) for name in TECHNIQUES}
    assert types["panes"] is BASIC and types["b_int"] is INTERVAL and types["r_int"] is RUNNING
    assert synopsis_type("slick_deque") is BASIC

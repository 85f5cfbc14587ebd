"""Chains of windows: definition 1 between all neighbours, whatever comes and goes, and as few chains as promised."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.slicing.pairs import Cadence
from papers.patroumpas2011.subsumption import ChainGrouping, Role, subsumable, subsume
from papers.patroumpas2011.subsumption_chains import Name

SLIDES = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 10, 12, 24])
CADENCES = st.builds(
    Cadence,
    range=st.one_of(st.integers(1, 12), st.none()),
    slide=SLIDES,
    offset=st.sampled_from([0, 0, 0, 1, 6]),
    align=st.sampled_from([0, 0, 0, 2, 3]),
)


def within(inner: Cadence, outer: Cadence) -> bool:
    """Definition 1 by looking: where the outer window's span ends the inner one's ends too, and it is no longer."""
    ends = {inner.align - inner.offset + k * inner.slide for k in range(-200, 200)}
    together = all(outer.align - outer.offset + k * outer.slide in ends for k in range(5))
    return together and (outer.range is None or (inner.range is not None and inner.range <= outer.range))


@given(CADENCES, CADENCES)
def test_subsumable_is_ending_together_within(inner: Cadence, outer: Cadence) -> None:
    assert subsumable(inner, outer) == within(inner, outer)


def _agree(grouping: ChainGrouping, expected: dict[Name, Cadence]) -> None:
    """The invariants as its users see them: every window once, neighbours and guests by definition 1."""
    grouping.check()
    seen: list[Name] = []
    for group in grouping.groups:
        seen += [*group.chain, *group.piggybacked]
        for inner, outer in zip(group.chain, group.chain[1:], strict=False):
            assert within(expected[inner], expected[outer]) and expected[inner].range != expected[outer].range
        for place, name in enumerate(group.chain):
            assert grouping.role_of(name) is (Role.ENCLOSING if place else Role.SEED)
        for name, (host, every) in group.piggybacked.items():
            assert grouping.role_of(name) is Role.PIGGYBACKED
            assert expected[name].range == expected[host].range and within(expected[host], expected[name])
            assert expected[name].slide == every * expected[host].slide
        assert len({grouping.group_of(name) for name in (*group.chain, *group.piggybacked)}) == 1
    assert sorted(seen, key=str) == sorted(expected, key=str) and len(grouping) == len(expected)


@given(st.lists(CADENCES, max_size=40))
def test_a_pool_is_in_no_more_chains_than_slides_and_phases(cadences: list[Cadence]) -> None:
    grouping = subsume(cadences)
    _agree(grouping, dict(enumerate(cadences)))
    distinct = {(c.slide, (c.align - c.offset) % c.slide) for c in cadences}
    assert grouping.group_count == len(grouping.groups) <= len(distinct)


@settings(max_examples=200)
@given(st.lists(CADENCES, max_size=10), st.lists(st.one_of(CADENCES, st.integers(0, 1000)), max_size=40))
def test_chains_hold_while_windows_come_and_go(pool: list[Cadence], changes: list[Cadence | int]) -> None:
    expected: dict[Name, Cadence] = dict(enumerate(pool))
    grouping = subsume(expected)
    for number, change in enumerate(changes, len(pool)):
        groups = {name: grouping.group_of(name) for name in expected}
        if isinstance(change, Cadence):
            roomy, count = grouping.can_embed(change), grouping.group_count
            expected[number] = change
            assert grouping.embed(change, number) == grouping.group_of(number)
            assert grouping.group_count == count + (not roomy)
            moved: tuple[Name, ...] = ()
        elif expected:
            gone = list(expected)[change % len(expected)]
            del expected[gone], groups[gone]
            moved = grouping.withdraw(gone)
            assert gone not in grouping
        _agree(grouping, expected)
        if expected:
            assert set(moved) == {name for name, group in groups.items() if grouping.group_of(name) != group}


@given(st.lists(CADENCES, min_size=1, max_size=12), CADENCES)
def test_a_window_begins_a_chain_only_where_none_can_take_it(pool: list[Cadence], new: Cadence) -> None:
    grouping = subsume(pool)
    hosts = [[pool[int(str(name))] for name in group.chain] for group in grouping.groups]

    def takes(chain: list[Cadence]) -> bool:
        """Some chain of the same windows and the new one obeys definition 1, guests aside."""
        if any(host.range == new.range and within(host, new) for host in chain):
            return True
        return all(within(host, new) or within(new, host) for host in chain)

    assert grouping.can_embed(new) == any(takes(chain) for chain in hosts)


def test_a_shorter_window_with_a_finer_slide_becomes_the_seed() -> None:
    grouping = subsume({"u": Cadence(12, 4)})
    assert grouping.embed(Cadence(6, 2), "d") == 0
    assert grouping.groups[0].chain == ("d", "u") and grouping.role_of("d") is Role.SEED


def test_a_finer_window_of_equal_range_becomes_the_host_of_those_that_it_meets() -> None:
    grouping = subsume({"u": Cadence(12, 4), "w": Cadence(12, 8)})
    grouping.embed(Cadence(12, 2), "d")
    assert grouping.groups[0].chain == ("d",)
    assert grouping.groups[0].piggybacked == {"u": ("d", 2), "w": ("d", 4)}


def test_the_predecessor_is_checked_too() -> None:
    # The next longer window would admit a slide of 2, the one before it would not.
    grouping = subsume({"short": Cadence(9, 3), "long": Cadence(24, 12)})
    assert grouping.embed(Cadence(14, 2), "new") == 1
    grouping.check()


def test_the_guest_with_the_shortest_slide_is_the_heir() -> None:
    grouping = subsume({"d": Cadence(8, 2), "u": Cadence(8, 4), "w": Cadence(8, 8), "top": Cadence(16, 8)})
    assert grouping.withdraw("d") == ()
    assert grouping.groups[0].chain == ("u", "top") and grouping.groups[0].piggybacked == {"w": ("u", 2)}


def test_a_guest_that_the_next_window_does_not_admit_is_no_heir() -> None:
    grouping = subsume({"d": Cadence(12, 2), "u": Cadence(12, 6), "top": Cadence(16, 4)})
    assert grouping.group_count == 1
    assert grouping.withdraw("d") == ("u",)
    assert [group.chain for group in grouping.groups] == [("top",), ("u",)]


def test_equal_windows_go_without_anybody_moving() -> None:
    grouping = subsume({"a": Cadence(8, 2), "b": Cadence(8, 2), "c": Cadence(8, 6)})
    assert grouping.groups[0].piggybacked == {"b": ("a", 1), "c": ("a", 3)}
    assert grouping.withdraw("a") == () and grouping.role_of("b") is Role.SEED
    with pytest.raises(ValueError, match="'b' already"):
        grouping.embed(Cadence(3, 1), "b")
    with pytest.raises(KeyError):
        grouping.withdraw("a")


def test_offsets_count_by_where_spans_end() -> None:
    grouping = subsume([Cadence(10, 10), Cadence(20, 10, offset=3), Cadence(30, 10, offset=3, align=13)])
    assert [group.chain for group in grouping.groups] == [(0, 2), (1,)]


def test_ten_thousand_windows_of_the_paper_s_kind_are_few_chains() -> None:
    draw = random.Random(2)
    slides = [draw.randint(1, 30) for _ in range(10_000)]
    windows = [Cadence(draw.randint(slide + 1, 60), slide) for slide in slides]
    grouping = subsume(windows)
    grouping.check()
    assert grouping.group_count <= 10

"""The sharing rules as a table: which queries may share state, and which are computed together if both are due.

SS rules are about state, CS rules about computation. A rule's condition needs only small descriptions of queries and
synopses. So EXPLAIN can cite rules ("shares by SS1, CS2"), and a new rule is one more entry. Some rules save space but
need more probes. They are marked, and a cost model decides whether to use them.

Golab 2006, sections 8.3.1 to 8.3.3 and 8.4.3. Two conditions are ours. SS2 accepts synopses of any one type; the thesis
requires running ones, because it keeps sums there. CS8 requires that the longer period is a multiple of the shorter,
because the reports of a query must not depend on the queries with which it shares.

>>> of = dict(source="packets", states=frozenset({"sum of length"}))
>>> synopsis = SynopsisKind(**of, type=SynopsisType.BASIC_INTERVAL, interval=1, intervals=8)
>>> situation = Situation((SharingQuery(**of, lengths=(8,)), SharingQuery(**of, lengths=(5,))), (synopsis,))
>>> [rule.name for rule in applicable(situation)]
['SS1', 'CS2']
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from panewise.aggregates.algebra import Algebra, Kind
from panewise.optimize.sharing.selections.covers import duplicate_insensitive, find_cover
from panewise.optimize.sharing.selections.selections import EVERY_ROW, Selection, equal


class SynopsisType(Enum):
    """How a synopsis is probed: two running values, O(log b) intervals, or all intervals from the newest on."""

    RUNNING = "running"
    INTERVAL = "interval"
    BASIC_INTERVAL = "basic interval"


class Allows(Enum):
    STATE = "state"
    COMPUTATION = "computation"


@dataclass(frozen=True)
class SharingQuery:
    """An aggregate over one window, or over a join of several. `lengths` has one window length per input.

    `source` identifies what is aggregated, including its grouping: equal sources have the same rows and groups.
    `period` and `phase` say when the query is answered. `output` identifies what it computes from its states.
    """

    source: Hashable
    states: frozenset[Hashable]
    lengths: tuple[int, ...]
    selection: Selection = EVERY_ROW
    algebra: Algebra = field(default=Algebra(Kind.DISTRIBUTIVE))
    period: int = 1
    phase: int = 0
    output: Hashable = None


@dataclass(frozen=True)
class SynopsisKind:
    """States of `intervals` (b) intervals of `interval` (s) units each, updated at `phase` modulo s.

    `flagged` is None for one window. For a join of windows it is g: the g oldest intervals also keep states without the
    results that involve the oldest part of one window.
    """

    source: Hashable
    states: frozenset[Hashable]
    type: SynopsisType
    interval: int
    intervals: int
    phase: int = 0
    flagged: int | None = None
    selection: Selection = EVERY_ROW

    def reaches(self, lengths: Sequence[int]) -> bool:
        """Whether it has windows of these lengths: ns with 1 <= n <= b. Unequal windows of a join need b - g <= n."""
        if any(length % self.interval for length in lengths):
            return False
        counts = [length // self.interval for length in lengths]
        if not all(1 <= count <= self.intervals for count in counts):
            return False
        if self.flagged is None or len(set(counts)) == 1:
            return True
        return len(counts) == 2 and min(counts) >= self.intervals - self.flagged


@dataclass(frozen=True)
class Situation:
    """Queries, the last of which is new, and the synopses that they would read."""

    queries: tuple[SharingQuery, ...]
    synopses: tuple[SynopsisKind, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A sharing rule. `trades_time_for_space`: not always a gain, so the cost decides; other rules always apply."""

    name: str
    says: str
    allows: Allows
    holds: Callable[[Situation], bool]
    trades_time_for_space: bool = False


def applicable(situation: Situation, rules: Sequence[Rule] | None = None) -> tuple[Rule, ...]:
    """The rules whose conditions hold, in the order of the table."""
    return tuple(rule for rule in (RULES if rules is None else rules) if rule.holds(situation))


def synopsis_type(technique: str) -> SynopsisType:
    """How windows of different lengths probe a technique of `synopses.techniques`."""
    return _TYPES.get(technique, SynopsisType.BASIC_INTERVAL)


_TYPES = {
    **dict.fromkeys(("r_int", "slick_deque_inv", "subtract_on_evict", "materialize_all"), SynopsisType.RUNNING),
    **dict.fromkeys(("b_int", "l_int", "psoup", "flat_fat", "two_stacks", "daba"), SynopsisType.INTERVAL),
}


# ---- conditions ------------------------------------------------------------------------------------------------------


def _one_synopsis(situation: Situation, joined: bool) -> bool:
    """Whether one synopsis has what every query needs, over the rows that every query selects."""
    if len(situation.synopses) != 1 or not situation.queries:
        return False
    (synopsis,) = situation.synopses
    return (synopsis.flagged is not None) == joined and all(
        query.source == synopsis.source
        and query.states <= synopsis.states
        and (len(query.lengths) > 1) == joined
        and synopsis.reaches(query.lengths)
        and equal(query.selection, synopsis.selection)
        for query in situation.queries
    )


def _aligned(synopses: Sequence[SynopsisKind]) -> bool:
    """Whether all are updated at the same times, so that their answers are for the same window."""
    return len({(synopsis.interval, synopsis.phase % synopsis.interval) for synopsis in synopses}) == 1


def _same_lengths(situation: Situation) -> bool:
    return len({query.lengths for query in situation.queries}) == 1


def _together(situation: Situation) -> bool:
    return len(situation.queries) > 1


def _types(situation: Situation, *types: SynopsisType) -> bool:
    return all(synopsis.type in types for synopsis in situation.synopses)


def _ss1(situation: Situation) -> bool:
    return _one_synopsis(situation, joined=False)


def _ss2(situation: Situation) -> bool:
    """Whether the new query's states are in several aligned synopses, none of which has them all."""
    if not situation.queries or len(situation.synopses) < 2:
        return False
    query, synopses = situation.queries[-1], situation.synopses
    return (
        all(synopsis.source == query.source and synopsis.flagged is None for synopsis in synopses)
        and len({synopsis.type for synopsis in synopses}) == 1
        and len(query.lengths) == 1
        and query.states <= frozenset[Hashable]().union(*(synopsis.states for synopsis in synopses))
        and all(synopsis.states & query.states and not query.states <= synopsis.states for synopsis in synopses)
        and _aligned(synopses)
        and all(synopsis.reaches(query.lengths) for synopsis in synopses)
        and all(equal(synopsis.selection, query.selection) for synopsis in synopses)
    )


def _cs3(situation: Situation) -> bool:
    """Whether each other query computes, from one of these synopses, something that the new query only combines."""
    *others, newcomer = situation.queries
    return all(
        query.source == newcomer.source
        and equal(query.selection, newcomer.selection)
        and any(query.states <= synopsis.states for synopsis in situation.synopses)
        for query in others
    )


def _ss3(situation: Situation) -> bool:
    return _one_synopsis(situation, joined=True)


def _ss4(situation: Situation) -> bool:
    """Whether the synopses cover the new query's selection, each is needed, and all reach as far as its window."""
    if not situation.queries or not situation.synopses:
        return False
    query, synopses = situation.queries[-1], situation.synopses
    if not _aligned(synopses) or any(
        synopsis.source != query.source
        or not query.states <= synopsis.states
        or not synopsis.reaches(query.lengths)
        or (synopsis.flagged is not None) != (len(query.lengths) > 1)
        for synopsis in synopses
    ):
        return False
    if any(equal(query.selection, synopsis.selection) for synopsis in synopses):
        return False  # the rules without selections apply
    if not query.algebra.commutative:
        return False
    cover = find_cover(
        query.selection,
        [synopsis.selection for synopsis in synopses],
        invertible=query.algebra.invertible,
        duplicate_insensitive=duplicate_insensitive(query.algebra),
    )
    return cover is not None and cover.parts == len(synopses)


def _candidates_before(situation: Situation) -> bool:
    """Whether the synopses answer all queries before the new one."""
    *candidates, newcomer = situation.queries
    return bool(candidates) and all(
        query.source == newcomer.source
        and any(
            query.states <= synopsis.states
            and synopsis.reaches(query.lengths)
            and equal(query.selection, synopsis.selection)
            for synopsis in situation.synopses
        )
        for query in candidates
    )


def _cs8(situation: Situation) -> bool:
    if len(situation.queries) != 2:
        return False
    first, second = situation.queries
    return (
        (first.source, first.states, first.lengths, first.output)
        == (second.source, second.states, second.lengths, second.output)
        and second.period > first.period
        and second.period % first.period == 0
        and (second.phase - first.phase) % first.period == 0
        and equal(first.selection, second.selection)
    )


_PROBED_APART = (SynopsisType.RUNNING, SynopsisType.INTERVAL)

RULES: tuple[Rule, ...] = (
    Rule(
        "SS1",
        "one synopsis serves all window lengths up to its own that are multiples of its interval",
        Allows.STATE,
        _ss1,
    ),
    Rule(
        "CS1",
        "a running or interval synopsis is probed once for queries over the same window length",
        Allows.COMPUTATION,
        lambda s: _ss1(s) and _together(s) and _types(s, *_PROBED_APART) and _same_lengths(s),
    ),
    Rule(
        "CS2",
        "a basic interval synopsis is scanned once, from the youngest interval on, for all its queries",
        Allows.COMPUTATION,
        lambda s: _ss1(s) and _together(s) and _types(s, SynopsisType.BASIC_INTERVAL),
    ),
    Rule("SS2", "an average reads the aligned synopses of the sum and of the count", Allows.STATE, _ss2),
    Rule(
        "CS3",
        "an average divides what the sum and the count over the same window length have computed",
        Allows.COMPUTATION,
        lambda s: _ss2(s) and _together(s) and _same_lengths(s) and _cs3(s),
    ),
    Rule(
        "SS3",
        "a synopsis of a join serves equal windows up to its own, and unequal ones within its flagged intervals",
        Allows.STATE,
        _ss3,
    ),
    Rule(
        "CS4",
        "a running or interval synopsis of a join is probed once for queries over the same window lengths",
        Allows.COMPUTATION,
        lambda s: _ss3(s) and _together(s) and _types(s, *_PROBED_APART) and _same_lengths(s),
    ),
    Rule(
        "CS5",
        "a basic interval synopsis of a join is scanned once for all its queries",
        Allows.COMPUTATION,
        lambda s: _ss3(s) and _together(s) and _types(s, SynopsisType.BASIC_INTERVAL),
    ),
    Rule(
        "SS4",
        "a selection is answered from synopses of selections that cover it and reach at least as far back",
        Allows.STATE,
        _ss4,
        trades_time_for_space=True,
    ),
    Rule(
        "CS6",
        "queries over the same window lengths run together with the one that their running or interval synopses cover",
        Allows.COMPUTATION,
        lambda s: _ss4(s) and _candidates_before(s) and _types(s, *_PROBED_APART) and _same_lengths(s),
        trades_time_for_space=True,
    ),
    Rule(
        "CS7",
        "queries run together with the one that their basic interval synopses cover",
        Allows.COMPUTATION,
        lambda s: _ss4(s) and _candidates_before(s) and _types(s, SynopsisType.BASIC_INTERVAL),
        trades_time_for_space=True,
    ),
    Rule(
        "CS8",
        "a query that differs only in its longer period takes its reports from the other's",
        Allows.COMPUTATION,
        _cs8,
    ),
)

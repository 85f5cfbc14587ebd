"""Whether a query says the same beside others as alone, and both what it would say if it had always been there.

Three witnesses of one query: `beside` others, `alone` from the same creation on, and alone `always`, created before the
first row. A query that comes in mid-stream begins with its first whole window; beside others that may be earlier,
because what they hold answers it, and never later. From its beginning on it says what it would always have said, but
for its first words: a change log and ISTREAM say first what there is (`state`).
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import accumulate

from tests.soak.life_players import NOT_HELD, Life, Said, Values
from tests.soak.lives import FOREVER, Query

Multiset = Counter[Values]


class Judge:
    """Compares the lives of one query; every method raises AssertionError in words.

    `first`: it was created before the first row. `settled`: the instant from which on its answers do not depend on when
    it was created.
    """

    def __init__(self, query: Query, first: bool, settled: int, always: Life, state: Life | None) -> None:
        self.query, self.first, self.settled, self.always = query, first, settled, always
        shows = always if state is None else state
        self._states = _states(_all(shows), shows.is_log)
        self._adds_up = shows.is_log
        # Whether the states are reports: those of other queries show differences only.
        differs = any(word in query.text for word in ("ISTREAM", "DSTREAM", "RESTORE", "INTERNAL"))
        self._reports = {} if shows.is_log or (differs and state is None) else dict(self._states)
        self._shows_state = always.is_log or state is not None
        if self._shows_state and settled > -FOREVER:  # changes are not added up from somewhere in the middle
            self.settled = FOREVER

    def compare(self, beside: Life, alone: Life) -> None:
        if alone.refused:
            if not beside.refused:
                self._right(beside, "beside")
            return
        assert not beside.refused, f"it is refused beside others, and not alone: {beside.refused}"
        for who, life in (("beside others", beside), ("alone", alone)):
            for span in life.spans[1::2]:
                assert not span, f"{who}: said while it was suspended or dropped: {_some(span)}"
            if "'lookup'" in self.query.options:
                assert not any(life.spans), f"{who}: said in the mode 'lookup': {_some(_all(life))}"
        if self.query.own_past and not self.first:
            self._equal(beside, alone)
        elif self.settled < FOREVER:
            self._right(alone, "alone")
            self._right(beside, "beside others")
            if not self.settled:
                self._as_early(beside, alone)
        elif self.first:
            self._equal(beside, alone)
        self._lookups(beside, alone)

    def same(self, other: Life | None, how: str) -> None:
        """Whether another witness says all that was said of the query that is always there."""
        if other is None or other.refused or self.always.refused:
            return
        ours, theirs = _all(self.always), _all(other)
        for instant in sorted(set(ours) | set(theirs)):
            found, wanted = ours.get(instant, Counter()), theirs.get(instant, Counter())
            assert close(found, wanted), f"alone, at {instant}, and not {how}: {_difference(found, wanted)}"

    def between(self, beside: Life, alone: Life) -> None:
        """Of a query whose results are single rows: beside others it may begin with earlier ones, which are right."""
        for ours, theirs, always in zip(beside.spans, alone.spans, self.always.spans, strict=True):
            for instant in sorted(set(ours) | set(theirs)):
                found, wanted = ours.get(instant, Counter()), theirs.get(instant, Counter())
                assert _within(wanted, found), f"beside others, at {instant}: {_difference(found, wanted)}"
                known = always.get(instant, Counter())
                assert _within(found, known) or self._adds_up, (
                    f"beside others, at {instant}: {_difference(found, known)}"
                )

    # -- what was said -------------------------------------------------------------------------------------------------

    def _right(self, life: Life, who: str) -> None:
        """All that is said is what would always have been said, without gaps."""
        beginning = min((min(span) for span in life.spans[::2] if span), default=None)
        if beginning is None:
            return
        shown: Multiset = Counter()
        for at, (span, expected) in enumerate(zip(life.spans, self.always.spans, strict=True)):
            if at % 2:
                continue
            opening = min(span, default=None)
            for instant in sorted(set(span) | set(expected)):
                if instant < max(beginning, self.settled):
                    continue
                found, wanted = span.get(instant, Counter()), expected.get(instant, Counter())
                shown.update(found)
                opens = (instant == beginning and not self.first) or (at > 0 and instant == opening)
                self._right_at(who, instant, found, wanted, shown, opens)

    def _right_at(
        self, who: str, instant: int, found: Multiset, wanted: Multiset, shown: Multiset, opens: bool
    ) -> None:
        if self.query.parted and not self.first:
            lacks = not _within(found, wanted) and not self._shows_state
            assert not lacks, f"{who}, at {instant}: {_difference(found, wanted)}"
            return
        if self.always.is_log:  # what was shown, added up, is what there is: also after it was suspended
            state = self.state_at(instant)
            # The difference to what was shown before it was suspended is of the microsecond before its instant.
            right = close(+shown, state) or (opens and close(+shown, self.state_at(instant - 1)))
            assert right, f"{who}, up to {instant}: {_difference(+shown, state)} of the state"
        if close(found, wanted):
            return
        if opens and self._shows_state:
            state = self.state_at(instant)
            right = self.always.is_log or _within(found, state)
            assert right, f"{who}, first at {instant}: {_difference(found, state)} of the state"
            return
        if opens and "ROWS" in self.query.text and _within(found, wanted):
            return  # several windows may end at one instant, of which the first are not whole
        raise AssertionError(f"{who}, at {instant}: {_difference(found, wanted)}")

    def _as_early(self, beside: Life, alone: Life) -> None:
        """What is said alone is said beside others, but for the first words."""
        if self.query.parted and not self.first:
            self._parts_as_early(beside, alone)
            return
        begun = min((min(span) for span in alone.spans[::2] if span), default=None)
        for ours, theirs in zip(beside.spans[::2], alone.spans[::2], strict=True):
            for instant, wanted in theirs.items():
                if instant < self.settled or close(ours.get(instant, Counter()), wanted):
                    continue
                earlier = begun == instant and not self.first and self._shows_state
                earlier = earlier and min([min(span) for span in beside.spans[::2] if span], default=0) <= instant
                # Several windows may end at one instant, and the first of them not be whole alone.
                several = begun == instant and not self.first and "ROWS" in self.query.text
                earlier = earlier or (several and _within(wanted, ours.get(instant, Counter())))
                assert earlier, f"beside others, at {instant}: {_difference(ours.get(instant, Counter()), wanted)}"

    def _parts_as_early(self, beside: Life, alone: Life) -> None:
        """The partitions that have begun alone have begun beside others: added up, all that is said alone is said."""
        ours, theirs = (_added_up(life) for life in (beside, alone))
        for instant, wanted in theirs:
            found = next((said for time, said in reversed(ours) if time <= instant), Counter())
            lacking = wanted - found
            assert _within(lacking, found - wanted), f"beside others, up to {instant}: missing {dict(lacking)}"

    def _equal(self, beside: Life, alone: Life) -> None:
        for ours, theirs in zip(beside.spans, alone.spans, strict=True):
            for instant in sorted(set(ours) | set(theirs)):
                found, wanted = ours.get(instant, Counter()), theirs.get(instant, Counter())
                assert close(found, wanted), f"beside others, at {instant}: {_difference(found, wanted)}"

    # -- lookups -------------------------------------------------------------------------------------------------------

    def _lookups(self, beside: Life, alone: Life) -> None:
        for (span, at, found), (_, at_alone, wanted) in zip(beside.looked, alone.looked, strict=True):
            if found == NOT_HELD and isinstance(wanted, Counter):
                assert not wanted, f"lookup at {at}: not held beside others; alone: {_some({0: wanted})}"
            if isinstance(found, Counter) and isinstance(wanted, Counter) and (self.first or (found and wanted)):
                same = close(found, wanted) or self.query.parted
                assert same, f"lookup at {at} beside others: {_difference(found, wanted)}"
            if span % 2 or self.settled > -FOREVER or (self.query.own_past and not self.first):
                continue
            for who, instant, answer in (("beside others", at, found), ("alone", at_alone, wanted)):
                if isinstance(answer, Counter) and answer:
                    self._right_lookup(f"lookup at {instant} {who}", instant, answer)

    def _right_lookup(self, which: str, at: int | None, answer: Multiset) -> None:
        """A state is the one at the instant; a report is the last one by then."""
        if self._adds_up and at is not None:
            state = self.state_at(at)
            right = close(answer, state) or (self.query.parted and _within(answer, state))
            assert right, f"{which}: {_difference(answer, state)}"
        if self._reports:
            ends = {row[1] for row in answer}  # `window_end`
            end = max(ends)
            assert len(ends) == 1 and (at is None or end <= at), f"{which}: reports of {ends}"
            wanted = self._reports.get(end, Counter())
            right = close(answer, wanted) or ("ROWS" in self.query.text and _within(answer, wanted))
            assert right, f"{which}: {_difference(answer, wanted)}"
            later = [time for time in self._reports if at is not None and end < time <= at]
            of_past = "ROWS" in self.query.text and "OFFSET" in self.query.text  # later rows cause the report
            assert not later or self.query.parted or of_past, f"{which}: the report of {end}, and not of {max(later)}"

    def state_at(self, instant: int) -> Multiset:
        found: Multiset = Counter()
        for time, state in self._states:
            if time > instant:
                break
            found = state
        return found


def _all(life: Life) -> Said:
    said: Said = {}
    for span in life.spans:
        for instant, rows in span.items():
            said.setdefault(instant, Counter()).update(rows)
    return said


def _added_up(life: Life) -> list[tuple[int, Multiset]]:
    """All that was said up to each instant; of a change log what there is then."""
    return _states(_all(life), is_log=True)


def _states(said: Said, is_log: bool) -> list[tuple[int, Multiset]]:
    """The state after each instant at which it changes: reports themselves, or changes added up."""
    if not is_log:
        return sorted(said.items(), key=lambda item: item[0])
    times = sorted(said)
    added = accumulate((said[time] for time in times), lambda state, changes: _added(state, changes), initial=Counter())
    return list(zip(times, list(added)[1:], strict=True))


def _added(state: Multiset, changes: Multiset) -> Multiset:
    found = Counter(state)
    found.update(changes)
    return +found


# -- multisets -------------------------------------------------------------------------------------------------------


def close(found: Multiset, wanted: Multiset) -> bool:
    """Equal multisets, where doubles may differ in their last digits."""
    extra, missing = _apart(found, wanted)
    if sum(map(abs, extra.values())) != sum(map(abs, missing.values())):
        return False
    left = list(missing.elements()) if min(missing.values(), default=1) > 0 else list(missing)
    for row in extra.elements():
        partner = next((at for at, other in enumerate(left) if _near(row, other)), None)
        if partner is None:
            return False
        left.pop(partner)
    return not left


def _apart(found: Multiset, wanted: Multiset) -> tuple[Multiset, Multiset]:
    extra, missing = Counter(found), Counter(wanted)
    extra.subtract(wanted)
    missing.subtract(found)
    return +extra, +missing


def _near(row: Values, other: Values) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(row, other, strict=True)
    )


def _within(found: Multiset, wanted: Multiset) -> bool:
    extra, missing = _apart(found, wanted)
    return not extra or all(any(_near(row, other) for other in missing) for row in extra)


def _difference(found: Multiset, wanted: Multiset) -> str:
    extra, missing = _apart(found, wanted)
    return f"too much {dict(extra)}, missing {dict(missing)}"


def _some(said: Said) -> str:
    return str({instant: dict(rows) for instant, rows in list(said.items())[:3]})

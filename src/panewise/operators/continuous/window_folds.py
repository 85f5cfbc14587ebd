"""The compiled loops of continuous and per-partition aggregates: the state of a group's window at each of its events.

Rows lie group after group (a *segment* each), every row with its own state in a column of `ints` and `floats`. An
event is a moment at which a group's answer is wanted. Three folds, by how rows leave:

- `fold_fifo`: rows leave in the order in which they came. Two stacks, O(1) amortised combines an event:

        first        middle                 last            suffix[first] + back = the window [first, last)
          |== suffixes ==|=== back, one state ===|

  When `first` passes `middle`, all rows held become suffixes and `middle` moves to `last`. Where `middle` lies
  depends only on the sequence of events, never on how they were cut into calls, so answers are the same to the last
  bit.
- `fold_growing`: rows never leave; one state a group.
- `fold_scattered`: rows leave in any order; a linked list of the live rows is folded anew at each event, O(live rows).

`combine_run` is a global on purpose: `specialised` replaces it for a user's aggregate. Floats are never
subtracted.
"""

from __future__ import annotations

from panewise.aggregates.kernels import combine_run
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop


@compiled_loop
def change_events(
    births: Ints, deaths: Ints, starts: Ints, since: int, until: int, forced: int, segment: Ints, time: Ints,
    first: Ints, last: Ints,
) -> int:  # fmt: skip
    """The instants in [since, until) at which a row of a segment is born or dies, and the window [first, last) of each.

    Births and deaths ascend within a segment and every birth is before its death. An event at `since - 1`, what was
    before, opens each segment; `forced` is one more instant for all. Returns the number of events.
    """
    count = 0
    for s in range(starts.shape[0] - 1):
        a = b = starts[s]
        end = starts[s + 1]
        t = since - 1
        while True:
            while b < end and births[b] <= t:
                b += 1
            while a < b and deaths[a] <= t:
                a += 1
            segment[count] = s
            time[count] = t
            first[count] = a
            last[count] = b
            count += 1
            following = until
            if b < end:
                following = min(following, births[b])
            if a < b:
                following = min(following, deaths[a])
            if t < forced:
                following = min(following, forced)
            if following >= until:
                break
            t = following
    return count


@compiled_loop
def report_events(
    births: Ints, deaths: Ints, starts: Ints, step: int, since: Ints, until: Ints, always: bool, segment: Ints,
    time: Ints, first: Ints, last: Ints,
) -> int:  # fmt: skip
    """The multiples of `step` in [since, until] of each segment at which its window holds rows (`always`: all of them).

    Called with empty output arrays it only counts.
    """
    counting = segment.shape[0] == 0
    count = 0
    for s in range(starts.shape[0] - 1):
        a = b = starts[s]
        end = starts[s + 1]
        t = -((-since[s]) // step) * step
        while t <= until[s]:
            while b < end and births[b] <= t:
                b += 1
            while a < b and deaths[a] <= t:
                a += 1
            if a < b or always:
                if not counting:
                    segment[count] = s
                    time[count] = t
                    first[count] = a
                    last[count] = b
                count += 1
                t += step
            elif b < end:
                t = max(t + step, -((-births[b]) // step) * step)
            else:
                break
    return count


@compiled_loop
def fold_fifo(
    operation: int, ints: Ints, floats: Floats, segment: Ints, first: Ints, last: Ints, middles: Ints, ranks: Ints,
    work_ints: Ints, work_floats: Floats, back_ints: Ints, back_floats: Floats, out_ints: Ints, out_floats: Floats,
) -> None:  # fmt: skip
    """The state of every event's window. `middles[s]` is where segment s's back begins; it is moved on.

    `work` has one column a row for the suffixes, then one for the back and one at the identity; `back` and `out` have
    one column an event. All start at the identity.
    """
    one = 1 + 0 * operation  # no literal: it would be compiled for by itself
    back = ints.shape[1]
    blank = back + 1
    halved = 0  # events from here on have their two halves in `out` and `back`
    i = 0
    while i < segment.shape[0]:
        s = segment[i]
        middle = middles[s]
        reached = -1
        while i < segment.shape[0] and segment[i] == s:
            a, b = first[i], last[i]
            renewed = a >= middle
            if renewed:
                middle = b
            if renewed or reached < 0:
                for row in range(middle - 1, a - 1, -1):
                    for f in range(ints.shape[0]):
                        work_ints[f, row] = ints[f, row]
                    for f in range(floats.shape[0]):
                        work_floats[f, row] = floats[f, row]
                    if row < middle - 1:
                        combine_run(operation, work_ints, work_floats, row, work_ints, work_floats, row + 1, one, ranks)
                for f in range(ints.shape[0]):
                    work_ints[f, back] = work_ints[f, blank]
                for f in range(floats.shape[0]):
                    work_floats[f, back] = work_floats[f, blank]
                reached = middle
            while reached < b:
                combine_run(operation, work_ints, work_floats, back, ints, floats, reached, one, ranks)
                reached += 1
            whole = reached == middle or a >= middle
            left = back if a >= middle else a
            for f in range(ints.shape[0]):
                out_ints[f, i] = work_ints[f, left]
                back_ints[f, i] = work_ints[f, back]
            for f in range(floats.shape[0]):
                out_floats[f, i] = work_floats[f, left]
                back_floats[f, i] = work_floats[f, back]
            # A call costs much more than a combine, so the halves of a run of answers meet in one.
            if whole and i > halved:
                combine_run(operation, out_ints, out_floats, halved, back_ints, back_floats, halved, i - halved, ranks)
            if whole:
                halved = i + 1
            i += 1
        middles[s] = middle
    if i > halved:
        combine_run(operation, out_ints, out_floats, halved, back_ints, back_floats, halved, i - halved, ranks)


@compiled_loop
def move_middles(segment: Ints, first: Ints, last: Ints, middles: Ints) -> None:
    """What `fold_fifo` does to the middles, for states that need no stacks."""
    for i in range(segment.shape[0]):
        if first[i] >= middles[segment[i]]:
            middles[segment[i]] = last[i]


@compiled_loop
def fold_growing(
    operation: int, ints: Ints, floats: Floats, segment: Ints, last: Ints, starts: Ints, ranks: Ints, base_ints: Ints,
    base_floats: Floats, out_ints: Ints, out_floats: Floats,
) -> None:  # fmt: skip
    """The state of everything up to each event; `base[s]` is what segment s held before, and takes in its rows."""
    one = 1 + 0 * operation  # no literal: it would be compiled for by itself
    reached = 0
    for i in range(segment.shape[0]):
        s = segment[i]
        if i == 0 or segment[i - 1] != s:
            reached = starts[s]
        while reached < last[i]:
            combine_run(operation, base_ints, base_floats, s, ints, floats, reached, one, ranks)
            reached += 1
        for f in range(ints.shape[0]):
            out_ints[f, i] = base_ints[f, s]
        for f in range(floats.shape[0]):
            out_floats[f, i] = base_floats[f, s]


@compiled_loop
def fold_scattered(
    operation: int, ints: Ints, floats: Floats, rows: Ints, comes: Ints, event: Ints, opens: Ints, following: Ints,
    preceding: Ints, ranks: Ints, out_ints: Ints, out_floats: Floats,
) -> None:  # fmt: skip
    """Entry k, the coming (`comes` 1) or going (-1) of a row, belongs to event `event[k]`; 0 is neither.

    `opens[e]` is 1 where event e is the first of its group. `following` and `preceding` hold the linked list of live
    rows in order of birth; one place more than rows, for the list's head.
    """
    one = 1 + 0 * operation  # no literal: it would be compiled for by itself
    head = following.shape[0] - 1
    k = 0
    for e in range(opens.shape[0]):
        if opens[e] == 1:
            following[head] = head
            preceding[head] = head
        while k < event.shape[0] and event[k] == e:
            row = rows[k]
            if comes[k] == 1:
                tail = preceding[head]
                following[tail] = row
                preceding[row] = tail
                following[row] = head
                preceding[head] = row
            elif comes[k] == -1:
                following[preceding[row]] = following[row]
                preceding[following[row]] = preceding[row]
            k += 1
        row = following[head]
        while row != head:
            combine_run(operation, out_ints, out_floats, e, ints, floats, row, one, ranks)
            row = following[row]

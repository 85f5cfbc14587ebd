"""The compiled loops of continuous and per-partition aggregates: the state of a group's window at each of its events.

Rows are ordered by group; the rows of a group are a *segment*. Each row has its own state in a column of `ints` and
`floats`. An event is a point at which the answer of a group is needed. There are three folds, by how rows leave:

- `fold_fifo`: rows leave in the order in which they came. Two stacks; O(1) amortised combines per event:

        first        middle                 last            suffix[first] + back = the window [first, last)
          |== suffixes ==|=== back, one state ===|

  When `first` passes `middle`, all rows held become suffixes and `middle` moves to `last`. `middle` depends only on
  the sequence of events, not on how they were divided into calls, so answers are equal to the last bit.
- `fold_growing`: rows never leave; one state per group.
- `fold_scattered`: rows leave in any order; a linked list of the live rows is folded at each event, O(live rows).

`combine_run` must be a global: `specialised` replaces it for a user-defined aggregate. Floats are never subtracted.
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
    """Finds the instants in [since, until) at which a row of a segment is born or dies, and their windows [first,
    last). Returns the number of these events.

    Births and deaths ascend within a segment, and every birth is before its death. The first event of each segment is
    at `since - 1`. `forced` is an additional instant for all segments.
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
    """Finds the multiples of `step` in [since, until] of each segment at which its window holds rows; returns how many.

    `always`: all multiples. With empty output arrays it only counts.
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
    """Folds the window of every event into `out`. `middles[s]` is where the back of segment s begins; it is updated.

    `work` has one column per row for the suffixes, then one for the back and one that stays at the identity. `back` and
    `out` have one column per event. All arrays start at the identity.
    """
    one = 1 + 0 * operation  # not a literal, for which numba would compile another version
    back = ints.shape[1]
    blank = back + 1
    halved = 0  # events from here on have their two halves in `out` and `back`, not yet combined
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
            # A call costs much more than a combine, so one call combines the halves of a run of answers.
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
    """Updates the middles as `fold_fifo` does, for states that need no stacks."""
    for i in range(segment.shape[0]):
        if first[i] >= middles[segment[i]]:
            middles[segment[i]] = last[i]


@compiled_loop
def fold_growing(
    operation: int, ints: Ints, floats: Floats, segment: Ints, last: Ints, starts: Ints, ranks: Ints, base_ints: Ints,
    base_floats: Floats, out_ints: Ints, out_floats: Floats,
) -> None:  # fmt: skip
    """Folds all rows up to each event into `out`. `base[s]`, the state of segment s before, takes in its rows."""
    one = 1 + 0 * operation  # not a literal, for which numba would compile another version
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
    """Folds the live rows at each event into `out`. Entry k belongs to event `event[k]`: a row comes (`comes[k]` is 1),
    leaves (-1), or neither (0).

    `opens[e]` is 1 if event e is the first of its group. `following` and `preceding` are the linked list of live rows,
    in order of birth, with one more place for the head.
    """
    one = 1 + 0 * operation  # not a literal, for which numba would compile another version
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

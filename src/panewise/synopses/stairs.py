"""The stairwise structure: windows that contain each other share pieces, coarser from stair to stair.

Windows are in one chain where each is subsumable under the next (definition 1): its slide divides the next one's, and
its range is no longer. All of a chain that are due at an instant end there, so that a window only adds what lies before
the start of the one below it:

      window 2   |==core 2==|                           range 12, slide 4: pieces of 4
      window 1              |.|=core 1=|                range  7, slide 2: pieces of 2
      window 0                         |==core 0==|     range  3, slide 1: slices
                             `buffer, not yet a piece   end

What expires from a window goes over to the buffer of the next stair, in place: only boundaries move. When that next
window slides, the buffer becomes pieces as long as its slide; what is left of it is shorter than a piece and counts as
it is. Its answer is core + buffer + the answer below it. A core is a queue in two stacks: pieces before `flip` know
the combination of all from themselves to it, those after it are combined in one state. Windows with one range are one
stair ("piggybacked"). Invariant: the cores and buffers of a chain tile the slices from the start of its last window
to the common end.

Slides and ranges are not told but seen: a window that was asked for thrice in equal steps is arranged into chains
(`window_chains`). One that does not fit a chain begins a chain of its own; so does one that moves irregularly, as
windows by time do over the slices of others, with slices for pieces. One that leaves its step is loose until it is
arranged again: loose windows are combined from slices, on top of the next shorter one that was just answered, or from
their own last answer while their start stays where it is.

For any associative state, also one that does not commute. Insert O(1); an answer costs 3 combinations and as many as
its slide has slides of the window below, amortised; at worst one per piece. It answers many ranges at once and, because
a chain has one common end, historical windows in chains apart from others; time windows like those of rows. Space: the
slices, and two states per slice of the longest window of each chain. Source: Patroumpas and Sellis 2011, sections 2.3,
3.1, 3.2 and 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loop_for, new_counter
from panewise.synopses.slice_ring import SliceRing, copy_states
from panewise.synopses.window_chains import chains_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# The rows of the table, which has a column per window. The first are what was seen of it,
SEEN_START, SEEN_END, RANGE, SLIDE, AGREED, MOVES = 0, 1, 2, 3, 4, 5
# then where it is kept (HOST: its stair's window, -1: it is loose) and how far that has come (END -1: begins anew),
HOST, START, END = 6, 7, 8
# then its stair: neighbours, length of pieces, core [START, CUT), where its stacks meet, and whether the newer has any,
BELOW, ABOVE, STEP, CUT, FLIP, BACK = 9, 10, 11, 12, 13, 14
# and the places of its chain among the pieces.
PLACE, ROOM = 15, 16
ROWS = 17
RESTLESS = 8  # moves without two equal steps after which a window is taken to be irregular


@compiled_loop
def _observe(table: Ints, w: int, start: int, end: int) -> bool:
    """Notes a position; whether the window, if it is loose, could now have a stair."""
    seen = table[SEEN_END, w]
    if seen >= 0:
        if start != table[SEEN_START, w]:
            table[MOVES, w] += 1
        if end - seen == table[SLIDE, w] > 0 and end - start == table[RANGE, w]:
            table[AGREED, w] += 1
        else:
            table[AGREED, w] = 0
        table[SLIDE, w] = end - seen
    table[RANGE, w] = end - start
    table[SEEN_START, w], table[SEEN_END, w] = start, end
    return bool(table[HOST, w] < 0 and (table[AGREED, w] > 0 or table[MOVES, w] >= RESTLESS))


@compiled_loop
def _loosen(table: Ints, stair: int) -> None:
    """A stair goes, and with it all that stand upon it."""
    if table[BELOW, stair] >= 0:
        table[ABOVE, table[BELOW, stair]] = -1
    while stair >= 0:
        table[HOST, stair] = -1
        table[AGREED, stair] = 0
        table[END, stair] = -1
        stair = table[ABOVE, stair]


@compiled_loop
def _lay(
    ints: Ints, floats: Floats, room: int, width: int, table: Ints, stair: int, lengths: Ints, piece_ints: Ints,
    piece_floats: Floats, begin: int, end: int,
) -> None:  # fmt: skip
    """Slices become pieces."""
    mask, place = table[ROOM, stair] - 1, table[PLACE, stair]
    for number in range(begin, end):
        target = place + (number & mask)
        lengths[target] = 1
        source = (number & (room - 1)) * width
        copy_states(piece_ints, piece_floats, target * width, ints, floats, source, width)


@compiled_loop
def _flip(
    operation: int, width: int, table: Ints, stair: int, lengths: Ints, piece_ints: Ints, piece_floats: Floats,
    suffix_ints: Ints, suffix_floats: Floats, visited: Ints, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """All pieces of the core come to know the combination from themselves to the end of the core."""
    mask, place = table[ROOM, stair] - 1, table[PLACE, stair]
    depth, position = 0, table[START, stair]
    while position < table[CUT, stair]:
        visited[depth] = place + (position & mask)
        position += lengths[visited[depth]]
        depth += 1
    for k in range(depth - 1, -1, -1):
        here = visited[k] * width
        copy_states(suffix_ints, suffix_floats, here, piece_ints, piece_floats, here, width)
        if k < depth - 1:
            later = visited[k + 1] * width
            combine_run(operation, suffix_ints, suffix_floats, here, suffix_ints, suffix_floats, later, width, ranks)
    count_operations(counter, max(depth - 1, 0))
    table[FLIP, stair] = table[CUT, stair]
    table[BACK, stair] = 0


@compiled_loop
def _grow_core(
    operation: int, width: int, table: Ints, stair: int, reach: int, lengths: Ints, piece_ints: Ints,
    piece_floats: Floats, back_ints: Ints, back_floats: Floats, ranks: Ints, counter: Ints,
) -> bool:  # fmt: skip
    """The buffer, as far as it fills pieces, enters the core; False where the pieces in it do not fill ours."""
    mask, place, step = table[ROOM, stair] - 1, table[PLACE, stair], table[STEP, stair]
    cut, back, one = table[CUT, stair], stair * width, min(1, width)
    while cut + step <= reach:
        target = place + (cut & mask)
        position = cut + lengths[target]
        while position < cut + step:
            more = place + (position & mask)
            combine_run(
                operation,
                piece_ints,
                piece_floats,
                target * width,
                piece_ints,
                piece_floats,
                more * width,
                width,
                ranks,
            )
            count_operations(counter, one)
            position += lengths[more]
        if position != cut + step:
            return False
        lengths[target] = step
        if table[BACK, stair] == 0:
            copy_states(back_ints, back_floats, back, piece_ints, piece_floats, target * width, width)
            table[BACK, stair] = 1
        else:
            combine_run(operation, back_ints, back_floats, back, piece_ints, piece_floats, target * width, width, ranks)
            count_operations(counter, one)
        cut += step
    table[CUT, stair] = cut
    return True


@compiled_loop
def _climb(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, table: Ints, stair: int, start: int, end: int,
    lengths: Ints, piece_ints: Ints, piece_floats: Floats, suffix_ints: Ints, suffix_floats: Floats, back_ints: Ints,
    back_floats: Floats, visited: Ints, ranks: Ints, counter: Ints,
) -> int:  # fmt: skip
    """Moves a stair to [start, end); says how far it reaches itself (-1: the window does not fit its chain)."""
    below, reach = table[BELOW, stair], end
    if below >= 0:
        if table[END, below] != end:
            return -1
        reach = table[START, below]
    space, step, old = table[ROOM, stair], table[STEP, stair], table[START, stair]
    if start > reach or end - start > space:
        return -1
    if table[END, stair] < 0 or end < table[END, stair] or start < old or end - old > space:
        _lay(ints, floats, room, width, table, stair, lengths, piece_ints, piece_floats, start, reach)
        table[CUT, stair] = reach if step == 1 else start + (reach - start) // step * step
        above = table[ABOVE, stair]
        while above >= 0:
            table[END, above] = -1
            above = table[ABOVE, above]
        flips = True
    else:
        if step > 1 and (start - old) % step != 0:
            return -1
        if below < 0:
            _lay(ints, floats, room, width, table, stair, lengths, piece_ints, piece_floats, table[END, stair], end)
        if not _grow_core(
            operation, width, table, stair, reach, lengths, piece_ints, piece_floats, back_ints, back_floats, ranks,
            counter,
        ):  # fmt: skip
            return -1
        flips = start >= table[FLIP, stair]
    table[START, stair], table[END, stair] = start, end
    if flips:
        _flip(
            operation, width, table, stair, lengths, piece_ints, piece_floats, suffix_ints, suffix_floats, visited,
            ranks, counter,
        )  # fmt: skip
    return reach


@compiled_loop
def _join(
    operation: int, fresh: bool, ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, width: int,
    ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """The second state behind the first, or in its place where there is none yet."""
    one = min(1, width)
    if fresh:
        copy_states(ints, floats, d, ints2, floats2, s, width)
    else:
        combine_run(operation, ints, floats, d, ints2, floats2, s, width, ranks)
        count_operations(counter, one)


@compiled_loop
def _add_up(
    operation: int, width: int, table: Ints, stair: int, reach: int, lengths: Ints, piece_ints: Ints,
    piece_floats: Floats, suffix_ints: Ints, suffix_floats: Floats, back_ints: Ints, back_floats: Floats,
    whole_ints: Ints, whole_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """The answer of a stair: its core, its buffer and the answer below it. It is not empty."""
    mask, place, target = table[ROOM, stair] - 1, table[PLACE, stair], stair * width
    fresh, start = width > 0, table[START, stair]
    if start < table[FLIP, stair]:
        here = (place + (start & mask)) * width
        _join(
            operation, fresh, whole_ints, whole_floats, target, suffix_ints, suffix_floats, here, width, ranks, counter
        )
        fresh = False
    if table[BACK, stair] > 0:
        _join(operation, fresh, whole_ints, whole_floats, target, back_ints, back_floats, target, width, ranks, counter)
        fresh = False
    position = table[CUT, stair]
    while position < reach:
        here = place + (position & mask)
        _join(
            operation, fresh, whole_ints, whole_floats, target, piece_ints, piece_floats, here * width, width, ranks,
            counter,
        )  # fmt: skip
        fresh = False
        position += lengths[here]
    below = table[BELOW, stair]
    if below >= 0 and table[START, below] < table[END, below]:
        _join(
            operation, fresh, whole_ints, whole_floats, target, whole_ints, whole_floats, below * width, width, ranks,
            counter,
        )  # fmt: skip


@compiled_loop
def _answer_loose(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, table: Ints, w: int, start: int, end: int,
    shorter: int, shorter_start: int, whole_ints: Ints, whole_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """From slices; `shorter` is a window that was just answered and is the end of this one, or -1."""
    target, fresh, position, until = w * width, width > 0, start, end
    if 0 <= table[END, w] <= end and table[START, w] == start < table[END, w]:
        fresh, position, shorter = False, table[END, w], -1
    elif shorter >= 0:
        until = shorter_start
    for number in range(position, until):
        source = (number & (room - 1)) * width
        _join(operation, fresh, whole_ints, whole_floats, target, ints, floats, source, width, ranks, counter)
        fresh = False
    if shorter >= 0:
        _join(
            operation, fresh, whole_ints, whole_floats, target, whole_ints, whole_floats, shorter * width, width, ranks,
            counter,
        )  # fmt: skip
    table[START, w], table[END, w] = start, end


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, groups: int, table: Ints, lengths: Ints,
    piece_ints: Ints, piece_floats: Floats, suffix_ints: Ints, suffix_floats: Floats, back_ints: Ints,
    back_floats: Floats, whole_ints: Ints, whole_floats: Floats, visited: Ints, begin: int, arrange_from: int,
    starts: Ints, ends: Ints, windows: Ints, result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> tuple[int, bool]:  # fmt: skip
    """Windows from `begin` on, into results at the identity.

    How many are answered, and whether loose windows are to be arranged before it goes on: from answer `arrange_from`
    on, between two ends.
    """
    shorter, waiting = -1, False
    for q in range(begin, starts.shape[0]):
        w, start, end = windows[q], starts[q], ends[q]
        waiting = _observe(table, w, start, end) or waiting
        stair = table[HOST, w]
        if stair >= 0 and table[HOST, stair] != stair:  # the stair that it stood on has gone
            table[HOST, w] = stair = -1
            table[END, w] = -1
        if start < end:
            if stair >= 0 and not (table[START, stair] == start and table[END, stair] == end):
                reach = _climb(
                    operation, ints, floats, room, width, table, stair, start, end, lengths, piece_ints, piece_floats,
                    suffix_ints, suffix_floats, back_ints, back_floats, visited, ranks, counter,
                )  # fmt: skip
                if reach < 0:
                    _loosen(table, stair)
                    table[HOST, w] = stair = -1
                    table[END, w] = -1
                else:
                    _add_up(
                        operation, width, table, stair, reach, lengths, piece_ints, piece_floats, suffix_ints,
                        suffix_floats, back_ints, back_floats, whole_ints, whole_floats, ranks, counter,
                    )  # fmt: skip
            if stair < 0:
                nested = (
                    q > begin and shorter >= 0 and shorter != w and ends[q - 1] == end and start <= starts[q - 1] < end
                )
                _answer_loose(
                    operation, ints, floats, room, width, table, w, start, end, shorter if nested else -1,
                    starts[q - 1], whole_ints, whole_floats, ranks, counter,
                )  # fmt: skip
                stair = w
            copy_states(result_ints, result_floats, q * groups, whole_ints, whole_floats, stair * width, groups)
            shorter = stair
        if waiting and q >= arrange_from and (q + 1 == starts.shape[0] or ends[q + 1] != end):
            return q + 1, True
    return starts.shape[0], False


class Stairs(SliceRing):
    """The slices, the pieces of all chains side by side, and for each stair its newer half and its answer."""

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self.choose_loops(counted=False)
        self._table: Ints = np.full((ROWS, 0), -1, np.int64)
        self._places = 0
        self._asked = 0
        self._arrange_at = 0  # answers after which the windows may be arranged again: seldom enough to cost nothing
        self._renew()

    def choose_loops(self, counted: bool) -> None:
        def chosen(loop: Any, **helpers: Any) -> Any:
            return loop_for(loop, self.kind, counted, **helpers)

        join = chosen(_join)
        climb = chosen(_climb, _flip=chosen(_flip), _grow_core=chosen(_grow_core))
        self._answer = chosen(
            _answer, _climb=climb, _add_up=chosen(_add_up, _join=join), _answer_loose=chosen(_answer_loose, _join=join)
        )

    def _renew(self) -> None:
        """The windows keep their stairs, but each begins anew."""
        self._table[END] = -1
        windows = self._table.shape[1]
        self._lengths = np.ones(self._places, np.int64)
        self._pieces = identity(self.kind, self._places * self.width)
        self._suffixes = identity(self.kind, self._places * self.width)
        self._backs = identity(self.kind, windows * self.width)
        self._wholes = identity(self.kind, windows * self.width)
        self._visited = np.empty(int(self._table[ROOM].max(initial=1)), np.int64)

    @property
    def chains(self) -> list[list[int]]:
        """The windows of each chain, the shortest first, without piggybacked ones."""
        table = self._table
        own = np.flatnonzero(table[HOST] == np.arange(table.shape[1]))
        result = [[seed] for seed in own.tolist() if table[BELOW, seed] < 0]
        for chain in result:
            while (above := int(table[ABOVE, chain[-1]])) >= 0:
                chain.append(above)
        return result

    def _arrange(self) -> None:
        """Every window that moves in equal steps, and every restless one, gets a stair; all begin anew."""
        table = self._table
        steady = np.flatnonzero(table[AGREED] > 0)
        restless = np.flatnonzero((table[MOVES] >= RESTLESS) & (table[AGREED] <= 0))
        chains = chains_of(table[RANGE, steady], table[SLIDE, steady], table[SEEN_END, steady])
        for row in (HOST, BELOW, ABOVE, ROOM):
            table[row] = -1
        self._places = 0
        for chain in chains:
            windows = steady[chain.windows]
            table[STEP, windows] = table[SLIDE, windows]
            self._stack(windows, int((table[RANGE, windows] + 2 * table[SLIDE, windows]).max()))
            for window, host in chain.piggybacked.items():
                table[HOST, steady[window]] = steady[host]
        for place in range(len(restless)):
            alone = restless[place : place + 1]
            table[STEP, alone] = 1
            self._stack(alone, int((2 * table[RANGE, alone] + np.abs(table[SLIDE, alone])).max()))
        self._renew()

    def _know(self, count: int) -> None:
        """Columns for so many windows, at least."""
        known = self._table.shape[1]
        if count <= known:
            return
        table = np.full((ROWS, max(count, 2 * known)), -1, np.int64)
        table[[AGREED, MOVES]] = 0
        table[:, :known] = self._table
        self._table = table
        for name in ("_backs", "_wholes"):
            new = identity(self.kind, table.shape[1] * self.width)
            for array, old in zip(new, getattr(self, name), strict=True):
                array[:, : old.shape[1]] = old
            setattr(self, name, new)

    def drop_window(self, window: int) -> None:
        """Its stair goes, and those upon it are arranged anew when they have been seen to be steady again."""
        if window < self._table.shape[1]:
            if self._table[HOST, window] == window:
                _loosen(self._table, window)
            self._table[:, window] = -1
            self._table[[AGREED, MOVES], window] = 0
            self._arrange_at = 0

    def _stack(self, windows: Ints, slices: int) -> None:
        """These windows are a chain, with places for so many slices."""
        room = 1 << max(slices, 1).bit_length()
        self._table[HOST, windows] = windows
        self._table[BELOW, windows[1:]] = windows[:-1]
        self._table[ABOVE, windows[:-1]] = windows[1:]
        self._table[PLACE, windows], self._table[ROOM, windows] = self._places, room
        self._places += room

    @property
    def bytes_held(self) -> int:
        states = (*self._pieces, *self._suffixes, *self._backs, *self._wholes)
        own = (self._table, self._lengths, self._visited, *states)
        return super().bytes_held + sum(array.nbytes for array in own)

    def int_arrays(self) -> list[Ints]:
        return [self._ints, self._pieces[0], self._suffixes[0], self._backs[0], self._wholes[0]]

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        windows = np.zeros(count, np.int64) if windows is None else windows
        self._know(int(windows.max(initial=-1)) + 1)
        ints, floats = identity(self.kind, count * groups)
        done = 0
        while done < count:
            begin, arrange_from = done, max(0, self._arrange_at - self._asked)
            done, waiting = self._answer(
                int(self.kind.operation), self._ints, self._floats, self._room, self.width, groups, self._table,
                self._lengths, *self._pieces, *self._suffixes, *self._backs, *self._wholes, self._visited, begin,
                arrange_from, starts, ends, windows, ints, floats, ranks, self.counter,
            )  # fmt: skip
            if waiting:
                self._arrange()
                self._arrange_at = (self._asked + done) * 5 // 4 + len(self._table[0])
        self._asked += count
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

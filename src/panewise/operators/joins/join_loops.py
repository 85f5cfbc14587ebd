"""The loops of the window join: chains of rows with equal keys, and nested walks over them.

Rows of input i stand at `base[i] + place` of `deaths`; keys and links of slot s, which is one class of one input, at
`key_base[s] + place` of `keys` and `links`. `heads[head_base[s] + key]` is the newest row with that key, and `links`
lead from a row to the next older one. Time only ascends, so a dead row stays dead: the walk that finds it removes it
from its chain. A dead row is therefore visited at most once per chain.

A walk stops when its output is full, and the next call goes on there: `position` says where. A walk over more than two
inputs can visit many rows that give no result, so it also stops after `position[3]` rows. Work per new row: its
results, and the rows that match in the first inputs of its order but not in the last. No intermediate result is kept
(Golab and Özsu 2003, section 3.4).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints, Small
from panewise.loops import compiled_loop

FRESH = -2  # the walk for this row has not begun


# The arrays of a loop are grouped in plain tuples: with named ones Numba needs longer for each call.
NewRows = tuple[Small, Small, Ints]
"""A step's new rows in the order in which they probe: input, place and birth of each."""
HeldRows = tuple[Ints, Ints, Ints, Small, Small, Ints, Small]
"""The rows of all inputs: base, deaths, key_base, keys, links, head_base and heads."""
ProbeLevels = tuple[Small, Small, Small, Small, Small, Small, Small, NDArray[np.bool_]]
"""The fields of a `ProbePlan` from `level_inputs` on."""
ResultArrays = tuple[Small, Ints, Ints]
"""Results: the places of their rows by input, births and deaths."""


@compiled_loop
def merged(births: Ints, starts: Ints, ends: Ints, firsts: Ints, origins: Small, rows: Small, instants: Ints) -> None:
    """Merges the new rows of all inputs by (birth, input, place). Input i has [starts[i], ends[i]) of `births`."""
    heads = starts.copy()
    for n in range(len(rows)):
        best = -1
        for i in range(len(heads)):
            if heads[i] < ends[i] and (best < 0 or births[heads[i]] < births[heads[best]]):
                best = i
        origins[n] = best
        rows[n] = firsts[best] + heads[best] - starts[best]
        instants[n] = births[heads[best]]
        heads[best] += 1


@compiled_loop
def count_up(first: int, numbers: Ints) -> None:
    """Fills the array with first, first + 1, ..."""
    for i in range(len(numbers)):
        numbers[i] = first + i


@compiled_loop
def chain_rows(deaths: Ints, keys: Small, links: Small, heads: Small, alive_after: int) -> None:
    """Chains the rows of a slot that die after an instant. All heads are -1 before."""
    for row in range(len(deaths)):
        if deaths[row] > alive_after:
            links[row] = heads[keys[row]]
            heads[keys[row]] = row


@compiled_loop
def probe_pair(new: NewRows, position: Ints, held: HeldRows, out: ResultArrays) -> int:
    """Probes two inputs with one slot each, from `position` on, until all rows are done or the output is full.

    Returns the number of results.
    """
    origins, rows, instants = new
    base, deaths, key_base, keys, links, head_base, heads = held
    places, births, result_deaths = out
    room, count = len(births), 0
    cursor, before = position[1], position[2]
    for n in range(position[0], len(rows)):
        origin, row, now = origins[n], rows[n], instants[n]
        other = 1 - origin
        own_death = deaths[base[origin] + row]
        if own_death <= now:
            continue
        key = keys[key_base[origin] + row]
        start, chain, head = base[other], key_base[other], head_base[other] + key
        mine, theirs = places[origin], places[other]
        if cursor == FRESH:
            cursor, before = np.int64(heads[head]), -1
        while cursor >= 0:
            following = np.int64(links[chain + cursor])
            death = deaths[start + cursor]
            if death <= now:
                if before < 0:
                    heads[head] = following
                else:
                    links[chain + before] = following
            else:
                if count == room:
                    position[0], position[1], position[2] = n, cursor, before
                    return count
                mine[count] = row
                theirs[count] = cursor
                births[count] = now
                result_deaths[count] = min(death, own_death)
                count += 1
                before = cursor
            cursor = following
        place = head_base[origin] + key
        links[key_base[origin] + row] = heads[place]
        heads[place] = row
        cursor = FRESH
    position[0] = len(rows)
    position[1] = FRESH
    return count


@compiled_loop
def _fits(
    row: int, first: int, last: int, check_slots: Small, check_sources: Small, slot_inputs: Small, bound: Ints,
    key_base: Ints, keys: Small,
) -> bool:  # fmt: skip
    """Whether a row has the keys of the bound rows in the further classes of a level."""
    for check in range(first, last):
        source = check_sources[check]
        if keys[key_base[check_slots[check]] + row] != keys[key_base[source] + bound[slot_inputs[source]]]:
            return False
    return True


@compiled_loop
def probe_many(new: NewRows, position: Ints, walk: Ints, levels: ProbeLevels, held: HeldRows, out: ResultArrays) -> int:
    """Probes any number of inputs, by the levels of each origin. Returns the number of results.

    `walk` holds the cursor, the row before it and the least death so far by level, and the bound row by input.
    """
    origins, rows, instants = new
    level_inputs, level_slots, level_sources, check_starts, check_slots, check_sources, slot_inputs, linked = levels
    base, deaths, key_base, keys, links, head_base, heads = held
    places, births, result_deaths = out
    cursors, befores, least, bound = walk[0], walk[1], walk[2], walk[3]
    room, count, last = len(births), 0, len(base) - 2
    depth, looks = position[1], position[3]
    for n in range(position[0], len(rows)):
        origin, row, now = origins[n], rows[n], instants[n]
        if deaths[base[origin] + row] <= now:
            continue
        if depth == FRESH:
            bound[origin], least[0], depth = row, deaths[base[origin] + row], 0
            cursors[0] = FRESH
        while depth >= 0:
            target, slot, source = level_inputs[origin, depth], level_slots[origin, depth], level_sources[origin, depth]
            start, chain = base[target], key_base[slot]
            head = head_base[slot] + keys[key_base[source] + bound[slot_inputs[source]]]
            cursor, before = cursors[depth], befores[depth]
            if cursor == FRESH:
                cursor, before = np.int64(heads[head]), np.int64(-1)
            first, end = check_starts[origin, depth], check_starts[origin, depth + 1]
            while cursor >= 0:
                if deaths[start + cursor] <= now:
                    cursor = np.int64(links[chain + cursor])
                    if before < 0:
                        heads[head] = cursor
                    else:
                        links[chain + before] = cursor
                    continue
                if looks == 0:
                    cursors[depth], befores[depth] = cursor, before
                    position[0], position[1] = n, depth
                    return count
                looks -= 1
                if first == end or _fits(
                    cursor, first, end, check_slots, check_sources, slot_inputs, bound, key_base, keys
                ):
                    if depth < last:
                        break
                    if count == room:
                        cursors[depth], befores[depth] = cursor, before
                        position[0], position[1] = n, depth
                        return count
                    bound[target] = cursor
                    for i in range(len(base)):
                        places[i, count] = bound[i]
                    births[count] = now
                    result_deaths[count] = min(least[depth], deaths[start + cursor])
                    count += 1
                before = cursor
                cursor = np.int64(links[chain + cursor])
            if cursor < 0:
                depth -= 1
                continue
            bound[target] = cursor
            befores[depth], cursors[depth] = cursor, np.int64(links[chain + cursor])
            least[depth + 1] = min(least[depth], deaths[start + cursor])
            depth += 1
            cursors[depth] = FRESH
        for slot in range(len(slot_inputs)):
            if slot_inputs[slot] == origin and linked[slot]:
                place = head_base[slot] + keys[key_base[slot] + row]
                links[key_base[slot] + row] = heads[place]
                heads[place] = row
        depth = FRESH
    position[0] = len(rows)
    position[1] = FRESH
    return count


@compiled_loop
def log_results(rows: Small, firsts: Small, links: Small, begin: int) -> None:
    """Adds the results from `begin` on to the chains of their rows."""
    for result in range(begin, len(rows)):
        links[result] = firsts[rows[result]]
        firsts[rows[result]] = result


@compiled_loop
def end_results(
    rows: Small, instants: Ints, firsts: Small, links: Small, deaths: Ints, touched: NDArray[np.bool_], found: Small,
    count: int,
) -> int:  # fmt: skip
    """Rows end at `instants`: their results that would live longer die then.

    Results that are touched for the first time are added to `found`, which has `count`. Returns the new count.
    """
    for n in range(len(rows)):
        result = firsts[rows[n]]
        while result >= 0:
            if instants[n] < deaths[result]:
                deaths[result] = instants[n]
                if not touched[result]:
                    touched[result] = True
                    found[count] = result
                    count += 1
            result = links[result]
        firsts[rows[n]] = -1
    return count

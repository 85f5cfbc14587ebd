"""The nested loops of Golab and Özsu 2003, section 3, with what they do counted.

Rows of stream i stand at [base[i], base[i + 1]) of `times` and `keys`, in order of time. A window is a list of buckets,
each a list of rows from old to young; one bucket makes nested loops, several a hash join (section 3.4).

    window i:  begin[i] <= row < arrived[i]     bucket b: first[bucket_base[i] + b] -> links -> ... -> last
               fresh[i] <= row < arrived[i]: not joined yet; newest[...] is the first of them in the bucket

The grouped joins are those of Golab 2006, algorithms 4 and 5: at every run the new rows of one stream and one key probe
the other windows once. Without restore (4) what ends before the next run is removed at once, so that no times are
compared, and results that live between two runs only are lost; with restore (5) rows stay until they have ended.

`counters`: key comparisons, rows visited, buckets and rows touched by expiration.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
COMPARISONS, VISITS, EXPIRATIONS = 0, 1, 2


@compiled_loop
def _bucket(key: int, buckets: int) -> int:
    return int(((np.uint64(key) * MULTIPLIER) >> np.uint64(32)) % np.uint64(buckets))


@compiled_loop
def _insert(i: int, base: Ints, keys: Ints, bucket_base: Ints, arrived: Ints, lists: Ints, links: Ints) -> None:
    row = arrived[i]
    place = bucket_base[i] + _bucket(keys[base[i] + row], bucket_base[i + 1] - bucket_base[i])
    first, last, newest = lists[0], lists[1], lists[2]
    links[base[i] + row] = -1
    if first[place] < 0:
        first[place] = row
    else:
        links[base[i] + last[place]] = row
    last[place] = row
    if newest[place] < 0:
        newest[place] = row
    arrived[i] = row + 1


@compiled_loop
def _expire(
    now: int, windows: Ints, base: Ints, times: Ints, bucket_base: Ints, begin: Ints, arrived: Ints, lists: Ints,
    links: Ints, counters: Ints,
) -> None:  # fmt: skip
    """Every bucket is looked at, and loses the rows that have left their window."""
    first = lists[0]
    for i in range(len(windows)):
        while begin[i] < arrived[i] and times[base[i] + begin[i]] + windows[i] <= now:
            begin[i] += 1
        for place in range(bucket_base[i], bucket_base[i + 1]):
            counters[EXPIRATIONS] += 1
            while first[place] >= 0 and first[place] < begin[i]:
                first[place] = links[base[i] + first[place]]
                counters[EXPIRATIONS] += 1


@compiled_loop
def _alive(j: int, row: int, i: int, new: int, windows: Ints, base: Ints, times: Ints) -> bool:
    """Whether a row of stream j came before the new row of stream i, by (time, stream), and has not left."""
    own, now = times[base[j] + row], times[base[i] + new]
    return (own < now or (own == now and j < i)) and now < own + windows[j]


@compiled_loop
def _join(
    origin: int, order: Ints, windows: Ints, base: Ints, times: Ints, keys: Ints, bucket_base: Ints, begin: Ints,
    fresh: Ints, arrived: Ints, lists: Ints, links: Ints, counters: Ints, bound: Ints, cursors: Ints, results: Ints,
    count: int,
) -> int:  # fmt: skip
    """GENERALCOMPUTEJOIN: the new rows of one stream, wherever it stands in the order. Returns the count of results,
    of which as many are written as there is room for."""
    streams = len(order)
    position = 0
    while order[position] != origin:
        position += 1
    depth, start = 0, True
    while depth >= 0:
        stream = order[depth]
        if start:
            if depth == 0:
                row = fresh[stream] if stream == origin else begin[stream]
                cursors[0] = row if row < arrived[stream] else -1
            else:
                key = keys[base[order[0]] + bound[order[0]]]
                place = bucket_base[stream] + _bucket(key, bucket_base[stream + 1] - bucket_base[stream])
                cursors[depth] = lists[2, place] if stream == origin else lists[0, place]
            start = False
        row = cursors[depth]
        if row < 0:
            depth -= 1
            continue
        if depth == 0:
            cursors[0] = row + 1 if row + 1 < arrived[stream] else -1
        else:
            cursors[depth] = links[base[stream] + row]
        counters[VISITS] += 1
        bound[stream] = row
        # Times are compared with the new row's as soon as that is bound, and from then on at once.
        fits = True
        if depth == position:
            for level in range(depth):
                earlier = order[level]
                fits = fits and _alive(earlier, bound[earlier], origin, row, windows, base, times)
        elif depth > position:
            fits = _alive(stream, row, origin, bound[origin], windows, base, times)
        if fits and depth > 0:
            counters[COMPARISONS] += 1
            fits = keys[base[stream] + row] == keys[base[order[0]] + bound[order[0]]]
        if not fits:
            continue
        if depth < streams - 1:
            depth += 1
            start = True
            continue
        if count < results.shape[1]:
            for j in range(streams):
                results[j, count] = bound[j]
        count += 1
    return count


@compiled_loop
def _join_all_new(
    orders: Ints, windows: Ints, base: Ints, times: Ints, keys: Ints, bucket_base: Ints, begin: Ints, fresh: Ints,
    arrived: Ints, lists: Ints, links: Ints, counters: Ints, bound: Ints, cursors: Ints, results: Ints, count: int,
) -> int:  # fmt: skip
    for i in range(len(windows)):
        if fresh[i] < arrived[i]:
            count = _join(
                i, orders[i], windows, base, times, keys, bucket_base, begin, fresh, arrived, lists, links, counters,
                bound, cursors, results, count,
            )  # fmt: skip
    for i in range(len(windows)):
        for row in range(fresh[i], arrived[i]):
            lists[2, bucket_base[i] + _bucket(keys[base[i] + row], bucket_base[i + 1] - bucket_base[i])] = -1
        fresh[i] = arrived[i]
    return count


@compiled_loop
def run_strategy(
    arrivals: Ints, interval: int, expiration: int, orders: Ints, windows: Ints, base: Ints, times: Ints, keys: Ints,
    bucket_base: Ints, counters: Ints, results: Ints,
) -> int:  # fmt: skip
    """All rows of all streams; `arrivals` are their streams by (time, stream). An interval of 0 joins every row as it
    comes, an expiration of 0 expires before every join. Returns the count of results."""
    streams = len(windows)
    begin, fresh, arrived = np.zeros(streams, np.int64), np.zeros(streams, np.int64), np.zeros(streams, np.int64)
    bound, cursors = np.zeros(streams, np.int64), np.zeros(streams, np.int64)
    lists = np.full((3, bucket_base[streams]), -1, np.int64)
    links = np.full(len(times), -1, np.int64)
    counters[:] = 0
    count, executed, expired = 0, 0, 0
    for n in range(len(arrivals)):
        i = arrivals[n]
        now = times[base[i] + arrived[i]]
        if n == 0:
            executed = now // interval if interval > 0 else 0
            expired = now // expiration if expiration > 0 else 0
        if interval > 0 and now // interval > executed:
            # Half open: a row at the very instant of the execution belongs to the next one.
            executed = now // interval
            count = _join_all_new(
                orders, windows, base, times, keys, bucket_base, begin, fresh, arrived, lists, links, counters, bound,
                cursors, results, count,
            )  # fmt: skip
            if expiration == 0:
                _expire(executed * interval, windows, base, times, bucket_base, begin, arrived, lists, links, counters)
        if (
            expiration > 0
            and now // expiration > expired
            and (interval == 0 or now // expiration * expiration <= executed * interval)
        ):
            expired = now // expiration
            _expire(expired * expiration, windows, base, times, bucket_base, begin, arrived, lists, links, counters)
        if interval == 0 and expiration == 0:
            _expire(now, windows, base, times, bucket_base, begin, arrived, lists, links, counters)
        _insert(i, base, keys, bucket_base, arrived, lists, links)
        if interval == 0:
            count = _join_all_new(
                orders, windows, base, times, keys, bucket_base, begin, fresh, arrived, lists, links, counters, bound,
                cursors, results, count,
            )  # fmt: skip
    return _join_all_new(
        orders, windows, base, times, keys, bucket_base, begin, fresh, arrived, lists, links, counters, bound, cursors,
        results, count,
    )  # fmt: skip


@compiled_loop
def _join_group(
    origin: int, group: Ints, order: Ints, restore: bool, windows: Ints, base: Ints, times: Ints, keys: Ints,
    bucket_base: Ints, lists: Ints, links: Ints, counters: Ints, bound: Ints, cursors: Ints, results: Ints, count: int,
) -> int:  # fmt: skip
    """[RESTORE]COMPUTEJOIN: new rows of one stream, of one key, from the oldest on; it stands first in the order."""
    streams, key, oldest = len(order), keys[base[origin] + group[0]], times[base[origin] + group[0]]
    depth, start = 1, True
    while depth >= 1:
        stream = order[depth]
        if start:
            place = bucket_base[stream] + _bucket(key, bucket_base[stream + 1] - bucket_base[stream])
            cursors[depth] = lists[0, place]
            start = False
        row = cursors[depth]
        if row < 0:
            depth -= 1
            continue
        cursors[depth] = links[base[stream] + row]
        counters[VISITS] += 1
        # What had ended before the oldest row of the group came joins none of them.
        if restore and times[base[stream] + row] + windows[stream] <= oldest:
            continue
        counters[COMPARISONS] += 1
        if keys[base[stream] + row] != key:
            continue
        bound[stream] = row
        if depth < streams - 1:
            depth, start = depth + 1, True
            continue
        born, ends = times[base[stream] + row], times[base[stream] + row] + windows[stream]
        for level in range(1, streams - 1):
            other = times[base[order[level]] + bound[order[level]]]
            born, ends = max(born, other), min(ends, other + windows[order[level]])
        for member in group:
            own = times[base[origin] + member]
            if restore and max(born, own) >= min(ends, own + windows[origin]):
                continue
            if count < results.shape[1]:
                bound[origin] = member
                for j in range(streams):
                    results[j, count] = bound[j]
            count += 1
    return count


@compiled_loop
def _join_groups(
    origin: int, rows_from: int, order: Ints, restore: bool, windows: Ints, base: Ints, times: Ints, keys: Ints,
    bucket_base: Ints, arrived: Ints, lists: Ints, links: Ints, counters: Ints, bound: Ints, cursors: Ints,
    results: Ints, count: int,
) -> int:  # fmt: skip
    """The new rows of one stream, key by key."""
    own = keys[base[origin] + rows_from : base[origin] + arrived[origin]]
    by_key = np.argsort(own, kind="mergesort")
    begin = 0
    for k in range(1, len(own) + 1):
        if k == len(own) or own[by_key[k]] != own[by_key[begin]]:
            count = _join_group(
                origin, by_key[begin:k] + rows_from, order, restore, windows, base, times, keys, bucket_base, lists,
                links, counters, bound, cursors, results, count,
            )  # fmt: skip
            begin = k
    return count


@compiled_loop
def run_grouped(
    arrivals: Ints, interval: int, restore: bool, orders: Ints, windows: Ints, base: Ints, times: Ints, keys: Ints,
    bucket_base: Ints, counters: Ints, results: Ints,
) -> int:  # fmt: skip
    """All rows of all streams, `arrivals` are their streams by (time, stream), by algorithm 4 or, with `restore`, 5.
    Runs are at the multiples of the interval. Returns the count of results."""
    streams = len(windows)
    begin, upto, arrived = np.zeros(streams, np.int64), np.zeros(streams, np.int64), np.zeros(streams, np.int64)
    bound, cursors = np.zeros(streams, np.int64), np.zeros(streams, np.int64)
    lists = np.full((3, bucket_base[streams]), -1, np.int64)
    links = np.full(len(times), -1, np.int64)
    counters[:] = 0
    count = n = horizon = 0
    while n < len(arrivals):
        now = (times[base[arrivals[n]] + upto[arrivals[n]]] // interval + 1) * interval
        if n > 0 and now > horizon and not restore:
            # There were runs without new rows, which removed rows all the same.
            _expire(now, windows, base, times, bucket_base, begin, arrived, lists, links, counters)
        while n < len(arrivals) and times[base[arrivals[n]] + upto[arrivals[n]]] < now:
            upto[arrivals[n]] += 1
            n += 1
        for i in range(streams):
            while not restore and arrived[i] < upto[i] and times[base[i] + arrived[i]] + windows[i] <= now:
                arrived[i] += 1  # it came and ended since the last run
            rows_from = arrived[i]
            while arrived[i] < upto[i]:
                _insert(i, base, keys, bucket_base, arrived, lists, links)
            if rows_from < arrived[i]:
                count = _join_groups(
                    i, rows_from, orders[i], restore, windows, base, times, keys, bucket_base, arrived, lists, links,
                    counters, bound, cursors, results, count,
                )  # fmt: skip
        horizon = now if restore else now + interval
        _expire(horizon, windows, base, times, bucket_base, begin, arrived, lists, links, counters)
    return count

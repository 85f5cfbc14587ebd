"""Parameters and random workloads of Golab 2006, section 7.5, and what the text leaves open.

From the text: a packet a millisecond, the rate of one sub-window up to ten times more or less; 40 periodic queries
where a sub-window is 1 s long and 100 where it is 5 s, in groups of five that share a scan; windows of 1 to n
sub-windows; n from 10 to 100; one-time queries at random times, one a second on average; trials as long as the window.

Ours: what a scan costs on the machine of the time. Two things in the text tie it down. With 100 sub-windows of 1 s
"nearly every transaction incurs a concurrent window movement" and few more than one: so a long scan takes about a
second. And aborts are rarer with 5 s: so a scan of a sub-window costs something that does not grow with its packets, or
the share of reads that meet a move would not depend on the length of sub-windows. A scheduling decision is charged 20
microseconds; `ch7` measures what ours take.

Of one-time queries the text says only that they are simple. Their cost is free as long as one a second leaves time for
the others; the differences in figures 7.12 and 7.13 grow with it.
"""

from __future__ import annotations

import numpy as np

from papers.golab2006.ch7_simulation import ReaderWorkload, ScanCost, SimulatedCosts

PACKETS_PER_S = 1000
RATE_FACTOR = 10.0
QUERIES = {1: 40, 5: 100}  # by the length of a sub-window in seconds
QUERIES_PER_GROUP = 5
ONE_TIME_PER_S = 1.0
DECISION_S = 20e-6

COSTS = SimulatedCosts(
    periodic=ScanCost(per_sub_window_s=6e-3, per_packet_s=3.5e-6),
    one_time=ScanCost(per_sub_window_s=1.5e-3, per_packet_s=0.8e-6),
    move_per_packet_s=2e-6,
    decision_s=DECISION_S,
)


def random_workload(sub_windows: int, sub_window_s: int, *, one_time: bool, trial: int) -> ReaderWorkload:
    chance = np.random.default_rng([sub_windows, sub_window_s, trial])
    groups = QUERIES[sub_window_s] // QUERIES_PER_GROUP
    lengths = chance.integers(1, sub_windows + 1, (groups, QUERIES_PER_GROUP)).max(axis=1)
    # Twice as many copies as a trial has moves, and those that fill the window: a trial may end late.
    factors = RATE_FACTOR ** chance.uniform(-1.0, 1.0, 4 * sub_windows + 8)
    packets = (PACKETS_PER_S * sub_window_s * factors).astype(int)
    asked: list[tuple[float, int]] = []
    if one_time:
        end = sub_windows * sub_window_s
        times = np.cumsum(chance.exponential(1 / ONE_TIME_PER_S, int(3 * end * ONE_TIME_PER_S) + 10))
        times = times[times < end]
        asked = list(zip(times.tolist(), chance.integers(1, sub_windows + 1, len(times)).tolist(), strict=True))
    return ReaderWorkload(sub_windows, float(sub_window_s), lengths.tolist(), packets.tolist(), asked)

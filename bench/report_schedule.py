"""Which reports come first: 200 queries in 40 families on a stream that gets 1.5 times the rows that it sustains.

Everything happens in one thread and by the clock of the processor, so that a busy machine changes nothing: before every
turn the rows arrive that are due by then, as far as there is room for them (the pusher is slowed otherwise), and the
turn is that of a queue's thread. For every schedule of the engine: how many rows a second it takes, and how late the
reports of each slide are, from the push of the rows that completed them to the end of the turn that brought them.
Results are read at the end; answers agree where they are the same under every schedule.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import panewise as pw
from bench.measure import isolated
from bench.report import Aim, Report
from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.engine.consumers.report_schedule import AT_ONCE, BEHIND, DEFAULT, SCHEDULES
from panewise.engine.ingest.stream import Stream

FAMILIES = 40
QUERIES = 200
# Alarms without groups every second, and panels of many groups every half minute, which are many and come due together:
# the slide in seconds of event time, the families and by what they group.
KINDS = ((30, 24, "k"), (5, 8, "g"), (1, 8, ""))
PUSH_ROWS = 16_000  # in a second of event time
ROOM_ROWS = 100_000
KEYS = 2_000
VALUES = 16  # different pushes, repeated
SECONDS = 4


def run(quick: bool) -> Report:
    seconds = 1 if quick else SECONDS
    lateness = tuple(f"late, {slide} s" for slide, _, _ in KINDS)
    report = Report(
        "report_schedule",
        f"reports: {QUERIES} queries in {FAMILIES} families, 1.5 times the sustainable rate for {seconds} s",
        ("schedule", "offered rows/s", "accepted rows/s", *lateness, "late, all", "agrees"),
    )
    pushes = 60 if quick else 400
    rate = 1.5 * isolated(measure, schedule=AT_ONCE, rate=math.inf, pushes=pushes)["accepted rows/s"]
    pushes = math.ceil(rate * seconds / PUSH_ROWS)
    results = None
    for schedule in reversed(SCHEDULES):
        figure = isolated(measure, schedule=schedule, rate=rate, pushes=pushes)
        results = results or figure["results"]
        figure["agrees"] = figure.pop("results") == results
        report.rows.append(figure)
        report.agree &= figure["agrees"]
    by_name = {figure["schedule"]: figure for figure in report.rows}
    gained = by_name[DEFAULT]["accepted rows/s"] / by_name[AT_ONCE]["accepted rows/s"]
    report.aims.append(Aim.at_least(f"rows/s of '{DEFAULT}' by those of '{AT_ONCE}'", 1.0, gained))
    report.notes.append("late: seconds, the mean over all reports of the queries with this slide")
    return report


def measure(schedule: str, rate: float, pushes: int) -> dict[str, Any]:
    """One schedule, in this process."""
    engine = engine_with(schedule)
    stream = engine.streams["s"]
    late: dict[int, list[float]] = {slide: [] for slide, _, _ in KINDS}
    values = drawn()
    warm = min(pushes // 2, 80)
    for number in range(warm):
        stream.push(push_of(number, values))
        if stream.waiting_rows > ROOM_ROWS // 4:
            engine.process(stream)
    engine.stats()
    watermark = {id(family): family.watermark for family in engine.hosting.families}
    began, number = process_time(), warm
    while number < pushes:
        while (
            number < pushes
            and stream.waiting_rows < ROOM_ROWS
            and process_time() >= arrives(number - warm, rate, began)
        ):
            stream.push(push_of(number, values))
            number += 1
        if stream.waiting_rows:
            engine.process(stream)
            for family in engine.hosting.families:
                note(family, stream, watermark[id(family)], late)
                watermark[id(family)] = family.watermark
    elapsed = process_time() - began
    engine.flush()
    seen = hashlib.sha256()
    for query in range(QUERIES):
        for column in engine.results(f"q{query}").columns:
            seen.update(column.cast(pa.int64()).to_numpy().tobytes())
    return {
        "schedule": schedule,
        "offered rows/s": rate,
        "accepted rows/s": (pushes - warm) * PUSH_ROWS / elapsed,
        **{f"late, {slide} s": statistics.mean(seconds) if seconds else None for slide, seconds in late.items()},
        "late, all": statistics.mean(one for seconds in late.values() for one in seconds),
        "results": seen.hexdigest(),
    }


def arrives(number: int, rate: float, began: float) -> float:
    """When a push is due."""
    return began + number * PUSH_ROWS / rate


def note(family: FamilyConsumer, stream: Stream, before: int, late: dict[int, list[float]]) -> None:
    """How late the reports are that a turn has brought."""
    slide, now = family.family.shortest_slide, stream.clock()
    assert slide is not None
    for report in range(before - before % slide + slide, family.watermark + 1, slide):
        waited = stream.push_times.lateness(report, now)
        if waited is not None:
            late[slide // 1_000_000].extend([waited] * len(family.queries))


def engine_with(schedule: str) -> pw.Engine:
    engine = pw.Engine(schedule=schedule)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, g BIGINT, v BIGINT)")
    engine.streams["s"].monitor.clock = process_time
    engine.schedule.begins_behind = lambda stream: stream.waiting_rows > BEHIND * ROOM_ROWS
    families = [(slide, key) for slide, count, key in KINDS for _ in range(count)]
    for number in range(QUERIES):
        slide, key = families[number % FAMILIES]
        select, grouping = (f"{key}, ", f" GROUP BY {key}") if key else ("", "")
        engine.execute(
            f"CREATE QUERY q{number} AS SELECT {select}SUM(v) AS a, MAX(v) AS b"
            f" FROM s [RANGE {slide * (2 + number // FAMILIES)} SECONDS SLIDE {slide} SECONDS]"
            f" WHERE v % 64 <> {number % FAMILIES}{grouping}"
        )
    return engine


def drawn() -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Keys and values of the pushes, the same in every process."""
    random = np.random.default_rng(5)
    return [(random.integers(0, KEYS, PUSH_ROWS), random.integers(0, 1000, PUSH_ROWS)) for _ in range(VALUES)]


def push_of(number: int, values: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]) -> pa.RecordBatch:
    """One push: a second of event time."""
    keys, amounts = values[number % VALUES]
    times = number * 1_000_000 + np.arange(PUSH_ROWS) * 1_000_000 // PUSH_ROWS
    ts = pa.array(times).cast(pa.timestamp("us", tz="UTC"))
    return pa.record_batch({"ts": ts, "k": keys, "g": keys % 10, "v": amounts})

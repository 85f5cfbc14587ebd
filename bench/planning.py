"""Planning: how long it takes to register and to weave very many queries, and one more into ten thousand.

The queries are of the paper's kind (Shein and Chrysanthis 2020, section 5.1): slides among the factors of 1,000 s, each
as likely as the others, and ranges of 1 to 1,000 slides. As text each is a CREATE QUERY statement that an engine
parses, binds and registers; then the engine weaves them by the figures of this machine, and says what they share. As
arrays a million are woven without an engine, by the engine's own model and by numbers of operations. One more query
comes to ten thousand that are registered already, before any row and between rows; each comes with a window of its own.
What follows from each other is measured in one process, everything else in processes of their own.
Times are processor seconds of one core. That every query is in exactly one tree, and that no weave costs more than
one tree for all, is checked.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench import floor
from bench.measure import Timing, isolated, timed
from bench.report import Aim, Report

if TYPE_CHECKING:
    from panewise.optimize.sharing.weave.strands import CadenceColumns
    from panewise.optimize.sharing.weave.weaving import Weave

LONGEST_SLIDE_S = 1_000
SLIDES_A_RANGE_MAX = 1_000
SECOND = 1_000_000  # microseconds, the unit of the axis
AS_TEXT, AS_ARRAYS, ONE_MORE = 10_000, 1_000_000, 20
QUICK_AS_TEXT, QUICK_AS_ARRAYS = 200, 10_000
ROWS_A_SECOND = 1_000
REGISTERED, WOVEN, REPORTED = "parse, bind, register", "weave", "say what is shared"
# Whether by this machine's figures, and the optimizer.
WEAVES = {
    "as arrays: TriWeave, by this machine's figures": (True, "tri_weave"),
    "as arrays: TriWeave, by operations": (False, "tri_weave"),
    "as arrays: WeaveShare, by operations": (False, "weave_share"),
}
TEXT_S_WANTED, WEAVE_S_WANTED, ARRAYS_S_WANTED, ONE_MORE_MS_WANTED = 30.0, 10.0, 300.0, 20.0


def run(quick: bool) -> Report:
    as_text, as_arrays = (QUICK_AS_TEXT, QUICK_AS_ARRAYS) if quick else (AS_TEXT, AS_ARRAYS)
    report = Report(
        "planning",
        f"planning: slides among the factors of {LONGEST_SLIDE_S:,} s, ranges of 1 to {SLIDES_A_RANGE_MAX:,} slides, "
        "one core",
        ("what", "queries", "seconds", "queries/s", "median ms", "most ms", "trees", "clock/CPU", "agrees"),
    )
    text: dict[str, Any] = isolated(measure_text, queries=as_text)
    for running in (False, True):
        text |= isolated(measure_one_more, queries=as_text, running=running)
    arrays = {name: isolated(measure_arrays, queries=as_arrays, name=name) for name in WEAVES}
    for what, figure in (text | arrays).items():
        number = {"queries": figure["queries"], "seconds": figure["seconds"]}
        report.rows.append(
            {"what": what, **number, "queries/s": figure["queries"] / figure["seconds"],
             "median ms": figure.get("median_ms"), "most ms": figure.get("most_ms"), "trees": figure.get("trees"),
             "clock/CPU": figure["clock_s"] / figure["seconds"], "agrees": not figure["disagreement"]}
        )  # fmt: skip
        if figure["disagreement"]:
            report.agree = False
            report.notes.append(f"{what}: {figure['disagreement']}")
    report.notes += [
        "one more: CREATE QUERY of a window that no other query has, each into what the one before has left",
        "weave: of all queries at once, without moving state; the first push weaves and moves what is to be moved",
    ]
    together = sum(text[step]["seconds"] for step in (REGISTERED, WOVEN, REPORTED))
    report.aims = [
        Aim.at_most(f"{as_text:,} queries as text: registered, woven and said", TEXT_S_WANTED, together, " s"),
        Aim.at_most(f"{as_text:,} queries: the weaving itself", WEAVE_S_WANTED, text[WOVEN]["seconds"], " s"),
    ]
    for what, figure in arrays.items():
        report.aims.append(
            Aim.at_most(f"{as_arrays:,} queries, {what}", ARRAYS_S_WANTED, figure["seconds"], " s")
        )  # fmt: skip
    for what, figure in text.items():
        if "median_ms" in figure:
            report.aims.append(
                Aim.at_most(f"{what}, {as_text:,} there already", ONE_MORE_MS_WANTED, figure["median_ms"], " ms")
            )
    return report


# -- in processes of their own ---------------------------------------------------------------------------------------


def windows(count: int, seed: int = 7) -> tuple[Any, Any]:
    """Ranges and slides in seconds."""
    random = np.random.default_rng(seed)
    factors = np.array([slide for slide in range(1, LONGEST_SLIDE_S + 1) if LONGEST_SLIDE_S % slide == 0])
    slides = random.choice(factors, count)
    return slides * random.integers(1, SLIDES_A_RANGE_MAX + 1, count), slides


def statement(name: str, range_s: int, slide_s: int) -> str:
    return f"CREATE QUERY {name} AS SELECT MAX(v) AS m FROM s [RANGE {range_s} SECONDS SLIDE {slide_s} SECONDS]"


def registering(queries: int) -> tuple[Any, Callable[[], None]]:
    """An engine, and what registers so many queries in it."""
    import panewise as pw

    texts = [statement(f"q{i}", *window) for i, window in enumerate(zip(*windows(queries), strict=True))]
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v DOUBLE)")

    def register() -> None:
        for text in texts:
            engine.execute(text)

    return engine, register


def measure_text(queries: int) -> dict[str, Any]:
    """The steps from text to a report."""
    from panewise.optimize.sharing.weave.weaver import best_weave

    warm_up()
    engine, register = registering(queries)
    answer: dict[str, Any] = {}
    answer[REGISTERED] = _figure(queries, timed(register)[0])
    (consumer,) = engine.hosting.families
    members, load = consumer.family.plan.movable, consumer.measured.load
    taken, woven = timed(lambda: best_weave(members, load))
    problem = "there is no plan" if woven is None else disagreement(woven, len(members))
    answer[WOVEN] = _figure(queries, taken, problem) | {"trees": 0 if woven is None else len(woven.trees)}
    taken, report = timed(engine.sharing_report)
    problem = "" if report.query_count == queries else f"{report.query_count} queries are reported"
    answer[REPORTED] = _figure(queries, taken, problem) | {"trees": report.tree_count}
    return answer


def measure_one_more(queries: int, running: bool) -> dict[str, Any]:
    """Single queries that come to those that are registered: before any row, or between rows after a first push."""
    warm_up()
    engine, register = registering(queries)
    register()
    if not running:
        return {"one more, before rows": _one_more(engine, "before", queries)}
    taken, _ = timed(lambda: _pushed(engine, 0))
    pushed = _figure(queries, taken) | {"trees": engine.sharing_report().tree_count}
    return {"first push": pushed, "one more, between rows": _one_more(engine, "between", queries)}


def _pushed(engine: Any, second: int) -> None:
    engine.push("s", rows_from(second))
    engine.results("q0")  # rows may wait until somebody asks


def _one_more(engine: Any, name: str, there: int) -> dict[str, Any]:
    """Rows come before each where there have been any, so that something is held and has to be cut."""
    running = name == "between"
    timings = []
    for number in range(ONE_MORE):
        if running:
            _pushed(engine, 1 + number)
        # No factors of 1,000 s, so that it is nobody's window.
        slide_s = 11 if running else 7
        text = statement(f"{name}{number}", slide_s * (number + 1), slide_s)
        timings.append(timed(lambda text=text: engine.execute(text))[0])  # type: ignore[misc]
    count = len(engine.stats()["queries"])
    problem = "" if count == there + ONE_MORE else f"{count} queries instead of {there + ONE_MORE}"
    seconds = [timing.cpu for timing in timings]
    total = Timing(sum(seconds), sum(timing.clock for timing in timings))
    return _figure(ONE_MORE, total, problem) | {
        "median_ms": 1000 * statistics.median(seconds),
        "most_ms": 1000 * max(seconds),
    }


def measure_arrays(queries: int, name: str) -> dict[str, Any]:
    """One weave: by the engine's own model for one MAX without groups, or by numbers of operations."""
    from panewise.optimize.sharing.costs.weave_costs import EACH_ITS_BEST, OperationModel
    from panewise.optimize.sharing.weave.weaving import weave

    by_machine, optimizer = WEAVES[name]
    model: Any = machine_model() if by_machine else OperationModel()
    techniques = (EACH_ITS_BEST if by_machine else "slick_deque",)
    arguments = ROWS_A_SECOND / SECOND, model, techniques, optimizer
    weave(columns(100), *arguments)
    drawn = columns(queries)
    taken, woven = timed(lambda: weave(drawn, *arguments))
    return _figure(queries, taken, disagreement(woven, queries)) | {"trees": len(woven.trees)}


def columns(queries: int) -> CadenceColumns:
    from panewise.optimize.sharing.weave.strands import CadenceColumns

    ranges_s, slides_s = windows(queries)
    return CadenceColumns.of_arrays(ranges_s * SECOND, slides_s * SECOND)


def machine_model() -> Any:
    """What an engine prices weaves of one MAX by."""
    import panewise as pw
    from panewise.optimize.sharing.weave.weaver import model_of

    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v DOUBLE)")
    engine.execute(statement("q", 60, 1))
    (consumer,) = engine.hosting.families
    return model_of(consumer.family.plan.movable, 1)[1]


def rows_from(second: int) -> pa.RecordBatch:
    """The rows of one second and the first of the next, with which the second is complete."""
    times = floor.EPOCH_MS * 1000 + second * SECOND + np.arange(ROWS_A_SECOND + 1) * (SECOND // ROWS_A_SECOND)
    values = np.random.default_rng(second).random(len(times))
    return pa.RecordBatch.from_arrays([pa.array(times).view(pa.timestamp("us", "UTC")), pa.array(values)], ["ts", "v"])


def warm_up() -> None:
    """A small load of the same shape: all is imported and compiled before the clock starts."""
    import panewise as pw
    from panewise.optimize.sharing.weave.weaver import best_plan

    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v DOUBLE)")
    for number, window in enumerate(zip(*windows(100), strict=True)):
        engine.execute(statement(f"q{number}", *window))
    best_plan(engine.hosting.families[0].family.plan, engine.hosting.families[0].measured.load)
    for second in range(3):
        engine.push("s", rows_from(second))
        engine.execute(statement(f"more{second}", 7 + second, 7))
    engine.sharing_report()


def disagreement(woven: Weave, queries: int) -> str:
    """Whether each query is in one tree, and the weave is no worse than one tree for all."""
    members = np.sort(np.concatenate([tree.members for tree in woven.trees]))
    if len(members) != queries or (members != np.arange(queries)).any():
        return f"{len(members)} members of {len(woven.trees)} trees are not the {queries} queries, each once"
    return "" if woven.cost <= woven.cost_full else f"it costs {woven.cost}, one tree {woven.cost_full}"


def _figure(queries: int, taken: Timing, disagreement: str = "") -> dict[str, Any]:
    return {"queries": queries, "seconds": taken.cpu, "clock_s": taken.clock, "disagreement": disagreement}

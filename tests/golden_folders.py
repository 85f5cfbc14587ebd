"""Folders of an engine as earlier commits have written them, and the answers that they must go on to give.

    python -m tests.golden_folders            records the scenes that have no folder yet
    python -m tests.golden_folders joins      records one anew: only where its format was never used by anybody

A scene is played up to a point, its engine is closed, and the folder is packed into `golden/folders/NAME.tar.xz`.
Beside it NAME.json has the steps that follow, each with what it answered. A recording is refused where an engine that
was not closed in between answers otherwise.
"""

from __future__ import annotations

import io
import json
import math
import random
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import panewise as pw

FOLDER = Path(__file__).parent / "golden" / "folders"
SECOND = 1_000_000
Step = list[Any]  # what to do, and with what


@dataclass(frozen=True)
class Scene:
    """`before` is played into the folder, `after` when it is opened again. `snapshot`: whether closing writes one.

    Paths are relative to the folder around the engine's.
    """

    before: list[Step]
    after: list[Step]
    snapshot: bool = True
    sharing: str = "weave"


# -- steps -------------------------------------------------------------------------------------------------------------


def played(engine: pw.Engine, steps: list[Step]) -> list[Any]:
    """What each step answers; None where it answers nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_answer(engine, *step) for step in steps]


def _answer(engine: pw.Engine, what: str, *given: Any) -> Any:
    try:
        answer = getattr(engine, what)(*given)
    except pw.PanewiseError as problem:
        return type(problem).__name__
    return plain(answer) if isinstance(answer, pa.Table) else None


def plain(table: pa.Table) -> list[list[Any]]:
    """Its rows as values of JSON."""
    rows = [[_plain_value(value) for value in row.values()] for row in table.to_pylist()]
    found: list[list[Any]] = json.loads(json.dumps(rows))
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two answers are the same. The last digits of sums of floats are not: they depend on which loops have been
    compiled by then."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
    return bool(one == other)


def _plain_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain_value(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain_value(one) for name, one in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def rows(seed: int, since: int, until: int, groups: int = 4, every: float = 0.4) -> list[dict[str, Any]]:
    """Rows between two seconds, out of order by less than two seconds, with NULLs among them."""
    chance = random.Random(seed)
    found: list[dict[str, Any]] = []
    time = float(since)
    while time < until:
        lag = chance.choice((0, 0, 0, 0.5, 1.5)) if time - since > 2 else 0
        found.append(
            {
                "ts": int((time - lag) * SECOND),
                "k": f"k{chance.randrange(groups)}",
                "v": chance.choice((None, *range(20))),
                "x": chance.choice((None, 0.25, 1.5, -3.75, 100.0)),
            }
        )
        time += chance.uniform(0, 2 * every)
    return found


STREAM = "(ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)"


def created(queries: dict[str, str]) -> list[Step]:
    return [["execute", f"CREATE QUERY {name} AS {text}"] for name, text in queries.items()]


def asked(*queries: str) -> list[Step]:
    return [[what, name] for name in queries for what in ("results", "lookup")]


def continued(seed: int, since: int, *queries: str, stream: str = "s") -> list[Step]:
    """What is there, what comes of further rows, and what all windows say in the end."""
    return [
        *asked(*queries),
        ["push", stream, rows(seed, since, since + 15)],
        *asked(*queries),
        ["flush"],
        *asked(*queries),
    ]


# -- scenes ------------------------------------------------------------------------------------------------------------

WINDOWS = {
    "grouped": "SELECT k, SUM(v) AS s, COUNT(*) AS n, MAX(x) AS m FROM s [RANGE 10 S SLIDE 3 S] GROUP BY k",
    "coarse": "SELECT k, SUM(v) AS s, AVG(x) AS a FROM s [RANGE 20 S SLIDE 10 S] GROUP BY k",
    "total": "SELECT COUNT(*) AS n, STDDEV_POP(x) AS d, LAST(k) AS l FROM s [RANGE 7 S SLIDE 2 S]",
    "some": "SELECT k, COUNT(v) AS n FROM s [RANGE 10 S SLIDE 5 S] WHERE v > 5 GROUP BY k HAVING COUNT(v) > 1",
    "running": "SELECT k, SUM(v) AS s FROM s [UNBOUNDED SLIDE 5 S] GROUP BY k",
    "counted": "SELECT SUM(v) AS s, MIN(x) AS m FROM s [ROWS 20 SLIDE 7]",
    "parted": "SELECT k, SUM(v) AS s FROM s [PARTITION BY k ROWS 5 SLIDE 2] GROUP BY k",
    "inserted": "SELECT ISTREAM k, COUNT(*) AS n FROM s [RANGE 6 S SLIDE 3 S] GROUP BY k",
    "deleted": "SELECT DSTREAM k, MAX(v) AS m FROM s [RANGE 6 S SLIDE 3 S] GROUP BY k",
    "moving": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM s [RANGE 4 S] GROUP BY k",
    "last": "SELECT k, v FROM s [ROWS 4]",
    "kept": "SELECT k, v, x FROM s [RANGE 3 S] WHERE v >= 10",
    "now": "SELECT ISTREAM k, v FROM s [NOW] WHERE v > 15",
    "above": "SELECT MAX(s) AS most, COUNT(*) AS n FROM grouped [RANGE 12 S SLIDE 6 S]",
    "inside": "SELECT SUM(n) AS n FROM (SELECT k, COUNT(*) AS n FROM s [RANGE 3 S SLIDE 1 S] GROUP BY k) [ROWS 5]",
}
HOLISTIC = {
    "middle": "SELECT k, MEDIAN(v) AS m, COUNT(DISTINCT v) AS d FROM s [RANGE 10 S SLIDE 3 S] GROUP BY k",
    "quantile": "SELECT QUANTILE(v, 0.9) AS q, PERCENTILE_CONT(x, 0.5) AS p FROM s [RANGE 12 S SLIDE 4 S]",
    "top": "SELECT TOP(2, k) AS t, FREQUENT(3, k) AS f FROM s [RANGE 10 S SLIDE 5 S]",
    "sketch": "SELECT APPROX_COUNT_DISTINCT(v) AS d, APPROX_QUANTILE(v, 0.5) AS q FROM s [RANGE 10 S SLIDE 5 S]",
}
JOINED = {
    "pairs": "SELECT a.k, a.v, b.x FROM s [RANGE 4 S] AS a, r [RANGE 6 S] AS b WHERE a.k = b.k",
    "counts": "SELECT a.k, COUNT(*) AS n, SUM(b.v) AS s "
    "FROM s [RANGE 4 S SLIDE 2 S] AS a, r [RANGE 8 S SLIDE 2 S] AS b WHERE a.k = b.k GROUP BY a.k",
    "missing": "SELECT k, v FROM s [RANGE 5 S] AS a "
    "WHERE NOT EXISTS (SELECT 1 FROM r [RANGE 5 S] AS b WHERE b.k = a.k)",
    "met": "SELECT k, v FROM s [RANGE 5 S] AS a WHERE EXISTS (SELECT 1 FROM r [RANGE 5 S] AS b WHERE b.k = a.k)",
    "kinds": "SELECT DISTINCT k FROM s [RANGE 5 S]",
    "both": "SELECT k FROM s [RANGE 3 S] UNION SELECT k FROM r [RANGE 3 S]",
    "only": "SELECT k FROM s [RANGE 6 S] EXCEPT SELECT k FROM r [RANGE 6 S]",
    "named": "SELECT a.k, n.word FROM s [RANGE 4 S] AS a, names AS n WHERE a.k = n.k",
}


def _windows() -> Scene:
    """All kinds of windows over one stream, some results read."""
    before = [["execute", f"CREATE STREAM s {STREAM}"], *created(WINDOWS), ["push", "s", rows(1, 0, 30)]]
    before += [["results", "grouped"], ["results", "moving"], ["push", "s", rows(2, 30, 40)]]
    return Scene(before, continued(3, 40, *WINDOWS))


def _log() -> Scene:
    """The same without a snapshot."""
    scene = _windows()
    return Scene(scene.before, scene.after, snapshot=False)


def _snapshot_and_log() -> Scene:
    """A snapshot in the middle and a log behind it: queries come, go and are suspended before and after."""
    names = [name for name in WINDOWS if name != "coarse"]
    before = [["execute", f"CREATE STREAM s {STREAM} WITH (retain = '30 seconds')"]]
    before += [*created(dict(list(WINDOWS.items())[:5])), ["push", "s", rows(4, 0, 25)]]
    before += [["execute", "SUSPEND QUERY some"], ["execute", "DROP QUERY coarse"], ["checkpoint"]]
    before += [["push", "s", rows(5, 25, 32)], *created(dict(list(WINDOWS.items())[5:])), ["results", "grouped"]]
    before += [["execute", "RESUME QUERY some"], ["execute", "SUSPEND QUERY moving"], ["push", "s", rows(6, 32, 45)]]
    after = [["execute", "RESUME QUERY moving"], *continued(7, 45, *names)]
    return Scene(before, after, snapshot=False)


def _alone() -> Scene:
    """Nothing is shared; techniques and options of queries."""
    before = [["execute", f"CREATE STREAM s {STREAM}"], *created(WINDOWS)]
    asked_for = ("daba", "two_stacks", "flat_fat", "slick_deque", "recompute", "psoup", "l_int", "materialize_all")
    text = "CREATE QUERY {0} WITH (technique = '{0}') AS SELECT k, MAX(v) AS m FROM s [RANGE 9 S SLIDE 3 S] GROUP BY k"
    before += [["execute", text.format(technique)] for technique in asked_for]
    before += [["push", "s", rows(8, 0, 33)]]
    return Scene(before, continued(9, 33, *WINDOWS, *asked_for), sharing="none")


def _holistic() -> Scene:
    """Aggregates that keep values, dense and ungrouped."""
    before = [["execute", f"CREATE STREAM s {STREAM}"], *created(HOLISTIC), ["push", "s", rows(10, 0, 33)]]
    return Scene(before, continued(11, 33, *HOLISTIC))


def _many_groups() -> Scene:
    """More groups than dense slices hold."""
    queries = {
        "sums": "SELECT k, SUM(v) AS s FROM s [RANGE 4 S SLIDE 2 S] GROUP BY k HAVING SUM(v) > 42",
        "most": "SELECT k, MAX(v) AS m, COUNT(*) AS n FROM s [RANGE 6 S SLIDE 2 S] GROUP BY k HAVING COUNT(*) > 4",
        "middle": "SELECT k, MEDIAN(v) AS m FROM s [RANGE 4 S SLIDE 4 S] GROUP BY k "
        "HAVING MEDIAN(v) > 17 AND COUNT(*) > 1",
    }
    before = [["execute", f"CREATE STREAM s {STREAM}"], *created(queries)]
    before += [["push", "s", rows(12, 0, 12, groups=9000, every=0.001)]]
    after = [*asked(*queries), ["push", "s", rows(13, 12, 16, groups=9000, every=0.01)], ["flush"], *asked(*queries)]
    return Scene(before, after)


def _joins() -> Scene:
    """Several inputs: joins, negation, DISTINCT, unions and tables."""
    before = [["execute", f"CREATE STREAM s {STREAM}"], ["execute", f"CREATE STREAM r {STREAM}"]]
    before += [["execute", "CREATE TABLE names (k STRING PRIMARY KEY, word STRING)"]]
    before += [["execute", "INSERT INTO names VALUES ('k0', 'zero'), ('k1', 'one')"], *created(JOINED)]
    before += [["push", "s", rows(14, 0, 20)], ["push", "r", rows(15, 0, 18)]]
    before += [["execute", "UPDATE names SET word = 'null' WHERE k = 'k0'"], ["results", "pairs"]]
    before += [["push", "s", rows(16, 20, 25)], ["push", "r", rows(17, 18, 26)]]
    after = [*asked(*JOINED), ["execute", "DELETE FROM names WHERE k = 'k1'"], ["push", "r", rows(18, 26, 34)]]
    return Scene(before, [*after, ["push", "s", rows(19, 25, 34)], *asked(*JOINED), ["flush"], *asked(*JOINED)])


def _joins_log() -> Scene:
    scene = _joins()
    return Scene(scene.before, scene.after, snapshot=False)


def _table_of_a_stream() -> Scene:
    """A table that a stream changes, with versions."""
    queries = {
        "named": "SELECT a.k, a.v, p.price FROM s [RANGE 4 S] AS a, prices AS p WHERE a.k = p.k",
        "priced": "SELECT a.k, SUM(p.price) AS n FROM s [RANGE 4 S SLIDE 2 S] AS a, prices AS p "
        "WHERE a.k = p.k GROUP BY a.k",
    }
    columns = "(ts TIMESTAMP, op STRING, k STRING, price BIGINT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)"
    options = "WITH (changes = 'c', operation = 'op')"
    table = f"CREATE TABLE prices (k STRING PRIMARY KEY, price BIGINT) NON RETROACTIVE {options}"
    before = [["execute", f"CREATE STREAM s {STREAM}"], ["execute", f"CREATE STREAM c {columns}"], ["execute", table]]
    before += [*created(queries), ["push", "c", _changes(20, 0, 21)], ["push", "s", rows(21, 0, 20)]]
    after = [*asked(*queries), ["push", "c", _changes(22, 21, 30)], ["push", "s", rows(23, 20, 30)], ["flush"]]
    return Scene(before, [*after, *asked(*queries)])


def _changes(seed: int, since: int, until: int) -> list[dict[str, Any]]:
    """One a second, of a few keys."""
    chance = random.Random(seed)
    return [
        {"ts": second * SECOND, "op": "upsert", "k": f"k{chance.randrange(4)}", "price": chance.randrange(100)}
        for second in range(since, until)
    ]


def _streams() -> Scene:
    """What streams hold beside rows: late and bad ones, numbers of producers, unread results, options."""
    options = "WITH (late = 'keep', on_bad_row = 'skip', retain = '20 seconds', ahead = 'off')"
    queries = {name: WINDOWS[name] for name in ("grouped", "total", "kept", "counted")}
    before = [["execute", f"CREATE STREAM s {STREAM} {options}"], *created(queries)]
    before += [["push", "s", rows(24, 0, 20)], ["push", "s", [*rows(25, 5, 7), *rows(26, 20, 24)]]]
    before += [["push", "s", [{"ts": 25 * SECOND, "k": "k1", "v": "bad", "x": 1.0}, *rows(27, 25, 28)]]]
    before += [["advance", "s", 29 * SECOND]]
    after = [["late_rows", "s"], ["bad_rows", "s"], ["execute", "SHOW QUERIES"], ["execute", "SHOW STREAMS"]]
    one_time = "SELECT k, COUNT(*) AS n FROM s [RANGE 8 S] GROUP BY k"
    return Scene(before, [*after, ["execute", one_time], *continued(28, 29, *queries)])


def _archives() -> Scene:
    """Archives of a stream and of a query, and a query that begins with archived rows."""
    before = [["execute", f"CREATE STREAM s {STREAM}"], *created({"grouped": WINDOWS["grouped"]})]
    with_options = "WITH (path = '{0}', key = 'k', lifetime = '1 hour', every = '5 seconds')"
    before += [["execute", "CREATE ARCHIVE past FROM s " + with_options.format("past")]]
    before += [["execute", "CREATE ARCHIVE sums FROM grouped " + with_options.format("sums")]]
    before += [["push", "s", rows(29, 0, 40)], *created({"total": WINDOWS["total"], "some": WINDOWS["some"]})]
    after = [["execute", "SELECT COUNT(*) AS n FROM past"], ["execute", "SELECT k, COUNT(*) AS n FROM sums GROUP BY k"]]
    return Scene(before, [*after, *continued(30, 40, "grouped", "total", "some")])


DECIDED = {
    "kinds": "SELECT DISTINCT a.k, b.v FROM s [RANGE 2 S] AS a, r [RANGE 1 S] AS b WHERE a.k = b.k AND b.v > 17",
    "three": "SELECT a.v, COUNT(*) AS n FROM s [RANGE 2 S SLIDE 1 S] AS a, r [RANGE 1 S SLIDE 1 S] AS b, "
    "u [RANGE 3 S SLIDE 1 S] AS c WHERE a.k = b.k AND b.v = c.v AND a.x = c.x GROUP BY a.v",
    "wider": "SELECT a.v, COUNT(*) AS n FROM s [RANGE 3 S SLIDE 1 S] AS a, r [RANGE 2 S SLIDE 1 S] AS b, "
    "u [RANGE 3 S SLIDE 1 S] AS c WHERE a.k = b.k AND b.v = c.v AND a.x = c.x GROUP BY a.v",
    "missing": "SELECT a.k, b.v FROM s [RANGE 1 S] AS a, r [RANGE 1 S] AS b WHERE a.k = b.k AND a.k > 'k3' AND "
    "a.v > 17 AND NOT EXISTS (SELECT 1 FROM u [RANGE 2 S] AS c WHERE c.k = a.k)",
    "inside": "SELECT COUNT(*) AS n FROM (SELECT ISTREAM DISTINCT a.k, b.v FROM s [RANGE 2 S] AS a, "
    "r [RANGE 1 S] AS b WHERE a.k = b.k AND b.v > 15) [RANGE 4 S SLIDE 2 S]",
}


def _decided() -> Scene:
    """Plans that were chosen by what had been measured when the queries were created, and a slide that was an upper
    bound."""
    before = [["execute", f"CREATE STREAM {stream} {STREAM}"] for stream in "sru"]
    before += [["push", "s", rows(31, 0, 15, groups=150, every=0.005)]]
    before += [["push", "r", rows(32, 0, 15, groups=150, every=0.01)], ["push", "u", rows(33, 0, 15, groups=150)]]
    slide = "SELECT k, SUM(v) AS s FROM u [RANGE 10 S SLIDE {} S] WHERE v > 15 GROUP BY k"
    before += [*created({"two": slide.format(2)}), *created({"seven WITH (refresh = 'at_most')": slide.format(7)})]
    before += [["execute", "DROP QUERY two"], *created(DECIDED)]
    further = [["push", "s", rows(34, 15, 20, 150, 0.05)], ["push", "r", rows(35, 15, 20, 150, 0.2)]]
    before += [*further, ["push", "u", rows(36, 15, 20, groups=150)]]
    names = ["seven", *DECIDED]
    after = [*asked(*names), ["push", "r", rows(37, 20, 28, 150, 0.05)], ["push", "s", rows(38, 20, 28, 150, 0.2)]]
    after += [["push", "u", rows(39, 20, 28, groups=150)], *asked(*names), ["flush"], *asked(*names)]
    return Scene(before, after)


def _decided_log() -> Scene:
    scene = _decided()
    return Scene(scene.before, scene.after, snapshot=False)


SCENES: dict[str, Callable[[], Scene]] = {
    "windows": _windows,
    "log": _log,
    "snapshot_and_log": _snapshot_and_log,
    "alone": _alone,
    "holistic": _holistic,
    "many_groups": _many_groups,
    "joins": _joins,
    "joins_log": _joins_log,
    "table_of_a_stream": _table_of_a_stream,
    "streams": _streams,
    "archives": _archives,
    "decided": _decided,
    "decided_log": _decided_log,
}


# -- recordings --------------------------------------------------------------------------------------------------------


def record(name: str) -> None:
    """Writes the folder of a scene and what it goes on to answer."""
    scene = SCENES[name]()
    with tempfile.TemporaryDirectory() as place, chdir(place):
        engine = pw.Engine("engine", sharing=scene.sharing)
        refused = [answer for answer in played(engine, scene.before) if isinstance(answer, str)]
        assert not refused, (name, refused)
        engine.close(snapshot=scene.snapshot)
        content = packed(Path(place))
    with tempfile.TemporaryDirectory() as place, chdir(place):
        unpack(content, Path(place))
        with pw.Engine("engine", sharing=scene.sharing) as opened:
            answers = played(opened, scene.after)
    with tempfile.TemporaryDirectory() as place, chdir(place), pw.Engine("engine", sharing=scene.sharing) as one:
        played(one, scene.before)
        uninterrupted = played(one, scene.after)
    for step, answer, other in zip(scene.after, answers, uninterrupted, strict=True):
        assert same(answer, other), (name, step, answer, other)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.tar.xz").write_bytes(content)
    steps = [{"step": step, "answer": answer} for step, answer in zip(scene.after, answers, strict=True)]
    told = ",\n".join(json.dumps(step) for step in steps)
    (FOLDER / f"{name}.json").write_text(f'{{"sharing": "{scene.sharing}", "steps": [\n{told}\n]}}\n')


def packed(place: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as archive:
        for path in sorted(place.iterdir()):
            archive.add(path, path.name)
    return buffer.getvalue()


def unpack(content: bytes, place: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:xz") as archive:
        archive.extractall(place, filter="data")


def recorded() -> Iterator[str]:
    return (path.stem for path in sorted(FOLDER.glob("*.json")))


if __name__ == "__main__":
    wanted = sys.argv[1:] or [name for name in SCENES if not (FOLDER / f"{name}.json").exists()]
    for each in wanted:
        record(each)
        print(each, (FOLDER / f"{each}.tar.xz").stat().st_size, (FOLDER / f"{each}.json").stat().st_size)

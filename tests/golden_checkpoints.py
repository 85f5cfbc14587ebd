"""Checkpoints of Spark pipelines as earlier commits have written them, and the results that they must go on to give.

    python -m tests.golden_checkpoints        records the scenes that have no checkpoint yet

As `golden_folders`: a pipeline is played up to a point and stopped, and its checkpoint is packed. Spark writes the
path of a checkpoint into some of its own files, where a word stands for it meanwhile. Results are compared with those
of an embedded engine that has seen the same, row by row in any order.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import panewise as pw
from tests.golden_folders import FOLDER as FOLDERS
from tests.golden_folders import JOINED, STREAM, WINDOWS, Step, created, packed, plain, played, rows, same, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = FOLDERS.parent / "checkpoints"
PLACE = "/the/place/of/the/checkpoint"
Results = dict[str, list[list[Any]]]  # by query


def _windows() -> tuple[list[Step], list[Step]]:
    before = [["execute", f"CREATE STREAM s {STREAM}"], *created(WINDOWS)]
    before += [["push", "s", rows(41, 0, 12)], ["push", "s", rows(42, 12, 20)]]
    return before, [["push", "s", rows(43, 20, 30)], ["push", "s", rows(44, 30, 36)], ["flush"]]


def _joins() -> tuple[list[Step], list[Step]]:
    queries = {name: text for name, text in JOINED.items() if name != "named"}  # what a row meets depends on the batch
    before = [["execute", f"CREATE STREAM s {STREAM}"], ["execute", f"CREATE STREAM r {STREAM}"], *created(queries)]
    before += [["push", "s", rows(45, 0, 12)], ["push", "r", rows(46, 0, 14)], ["push", "s", rows(47, 12, 20)]]
    return before, [["push", "r", rows(48, 14, 25)], ["push", "s", rows(49, 20, 26)], ["flush"]]


SCENES: dict[str, Callable[[], tuple[list[Step], list[Step]]]] = {"windows": _windows, "joins": _joins}


def run(spark: SparkSession, place: Path, steps: list[Step]) -> Results:
    """Plays steps, each push in a micro-batch of its own; returns all results that the checkpoint has."""
    pipeline = pw.SparkPipeline(spark, checkpoint=str(place))
    for what, *given in steps:
        if what == "execute":
            pipeline.execute(*given)
    handle = pipeline.start()
    try:
        for what, *given in steps:
            if what == "push":
                pipeline.push(*given)
                handle.process_all()
            elif what == "flush":
                handle.flush()
                handle.process_all()
        queries = pipeline.execute("SHOW QUERIES")
        assert queries is not None
        return {name: in_order(plain(handle.fetch(name))) for name in queries["name"].to_pylist()}
    finally:
        handle.stop()


def on_engine(steps: list[Step]) -> Results:
    engine = pw.Engine()
    played(engine, steps)
    queries = engine.execute("SHOW QUERIES")
    assert queries is not None
    return {name: in_order(plain(engine.results(name))) for name in queries["name"].to_pylist()}


def in_order(found: list[list[Any]]) -> list[list[Any]]:
    return sorted(found, key=json.dumps)


def record(spark: SparkSession, name: str) -> None:
    """Writes the checkpoint of a scene and what it goes on to say."""
    before, after = SCENES[name]()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkpoint"
        run(spark, place, before)
        _renamed(place, str(place), PLACE)
        content = packed(Path(folder))
        (place.parent / "again").mkdir()
        taken_out(content, place.parent / "again")
        results = run(spark, place.parent / "again" / "checkpoint", after)
    expected = on_engine([*before, *after])
    assert all(same(results[query], expected[query]) for query in expected), name
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.tar.xz").write_bytes(content)
    told = ",\n".join(json.dumps(step) for step in after)
    queries = ",\n".join(f"{json.dumps(query)}: {json.dumps(found)}" for query, found in results.items())
    (FOLDER / f"{name}.json").write_text(f'{{"steps": [\n{told}\n],\n"results": {{\n{queries}\n}}}}\n')


def taken_out(content: bytes, folder: Path) -> Path:
    """The checkpoint in a folder of its own."""
    unpack(content, folder)
    place = folder / "checkpoint"
    _renamed(place, PLACE, str(place))
    return place


def _renamed(place: Path, old: str, new: str) -> None:
    for path in place.rglob("*"):
        if path.is_file() and old.encode() in (content := path.read_bytes()):
            path.write_bytes(content.replace(old.encode(), new.encode()))
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def recorded() -> Iterator[str]:
    return (path.stem for path in sorted(FOLDER.glob("*.json")))


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    from tests.conftest import STATE_STORE

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
        .getOrCreate()
    )
    for each in sys.argv[1:] or [name for name in SCENES if not (FOLDER / f"{name}.json").exists()]:
        record(session, each)
        print(each, (FOLDER / f"{each}.tar.xz").stat().st_size, (FOLDER / f"{each}.json").stat().st_size)

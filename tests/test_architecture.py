"""ARCHITECTURE.md tells the truth: its four walks are run, and the modules that it names are there."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import panewise
import panewise as pw
from panewise.serve.http.backends.engine_backend import EngineBackend
from panewise.serve.http.background_server import ServerBeside
from panewise.serve.http.service.settings import Settings
from tests.spark.local_run import LocalRun

ROOT = Path(__file__).parents[1]
PACKAGE = Path(panewise.__file__).parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`", re.MULTILINE)

STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)"
QUERY = "CREATE QUERY q AS SELECT k, SUM(v) AS total FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k"
ROWS = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", pa.int64())])
SECOND = 1_000_000


def steps(title: str) -> list[tuple[str, str]]:
    """The module and function of each step of a walk."""
    (section,) = re.findall(rf"^### {title}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    return STEP.findall(section)


class Calls:
    """The functions of the package that are called, in order of their first calls, in all threads."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, str], None] = {}

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            module = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
            self.first.setdefault((module, frame.f_code.co_qualname))

    @contextmanager
    def noted(self) -> Iterator[Calls]:
        before = sys.getprofile()
        sys.setprofile(self.note)
        try:
            yield self
        finally:
            sys.setprofile(before)


def rows(begin: int) -> list[dict[str, Any]]:
    return [{"ts": (begin + at) * SECOND, "k": "a", "v": at} for at in range(3)]


def push(place: Path) -> Calls:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute(QUERY)
    engine.push("t", rows(0))
    engine.results("q")
    with Calls().noted() as calls:
        engine.push("t", rows(5))
        engine.results("q")
    return calls


def micro_batch(place: Path) -> Calls:
    run = LocalRun(place)
    run.change(STREAM, QUERY)
    for begin in (0, 5):
        run.push("t", pa.RecordBatch.from_pylist(rows(begin), ROWS))
        with Calls().noted() as calls:
            run.run()
    return calls


def statement(place: Path) -> Calls:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute(QUERY)
    engine.push("t", rows(0))
    engine.results("q")
    with Calls().noted() as calls:
        engine.execute(QUERY.replace("QUERY q", "QUERY other").replace("2 SECONDS", "4 SECONDS"))
    return calls


def lookup(place: Path) -> Calls:
    calls = Calls()
    threading.setprofile(calls.note)  # of threads that begin from now on, those of the server among them
    try:
        server = ServerBeside(Settings(port=0), EngineBackend(Settings()))
        with pw.connect(server.address) as client:
            client.execute(f"{STREAM} WITH (ahead = 'off')")
            client.execute(QUERY)
            client.push("t", rows(0))
            client.lookup("q")
            calls.first.clear()
            client.lookup("q")
        server.close()
    finally:
        threading.setprofile(None)
    return calls


WALKS: dict[str, Callable[[Path], Calls]] = {
    "A push to a report": push,
    "A row through a micro-batch": micro_batch,
    "A statement to a running query": statement,
    "A lookup over HTTP": lookup,
}


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_passes_its_functions_in_order(title: str, tmp_path: Path) -> None:
    told = steps(title)
    assert len(told) >= 6
    order = list(WALKS[title](tmp_path).first)
    missing = [step for step in told if step not in order]
    assert not missing
    assert sorted(told, key=order.index) == told


@pytest.mark.parametrize("title", WALKS)
def test_no_walk_visits_a_module_twice(title: str) -> None:
    modules = [module for module, _ in steps(title)]
    assert len(set(modules)) == len(modules)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_modules_that_are_named_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in set(re.findall(r"`([\w/]+\.py)`", text)):
        found = [place for place in (ROOT / name, PACKAGE / name) if place.exists()]
        assert found, f"{page} names {name}, which is neither in the root nor in the package"

"""A forked child process may not use what its parent has opened, and disturbs nothing by trying or by ending."""

from __future__ import annotations

import gc
import os
import threading
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import panewise as pw
from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.engine.durability.durable_folder import DurableFolder
from panewise.state.durable_files import FileSystem
from tests.engine.durability.small_durable import QUERY, STREAM, begun, row, totals

# Threads of the engine and of Arrow are running: that a child may not use them is what is tried here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def in_child(do: Callable[[], object]) -> None:
    """Runs it in a forked child, which has to come to its end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = b"fine"
        try:
            do()
        except BaseException:  # noqa: BLE001 - the parent raises it
            told = traceback.format_exc().encode()
        os.write(writing, told)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    assert told == b"fine", told.decode()


CALLS: dict[str, Callable[[pw.Engine], object]] = {
    "push": lambda engine: engine.push("s", row(9)),
    "push by number": lambda engine: engine.push("s", [row(9)], producer="p", sequence=1),
    "advance": lambda engine: engine.advance("s", 99_000_000),
    "flush": lambda engine: engine.flush(),
    "execute": lambda engine: engine.execute("DROP QUERY q"),
    "select": lambda engine: engine.execute("SELECT * FROM q"),
    "results": lambda engine: engine.results("q"),
    "hand_over": lambda engine: engine.hand_over("q", lambda table, first: None),
    "lookup": lambda engine: engine.lookup("q"),
    "lookup_now": lambda engine: engine.lookup_now("q"),
    "stats": lambda engine: engine.stats(),
    "snapshot": lambda engine: engine.snapshot(),
    "checkpoint": lambda engine: engine.checkpoint(),
    "last_sequence": lambda engine: engine.last_sequence("s", "p"),
    "explain": lambda engine: engine.explain(),
    "late_rows": lambda engine: engine.late_rows("s"),
}


def content(folder: Path) -> dict[str, bytes]:
    """But for what a thread of the parent notes meanwhile."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "LOCK"}


@pytest.mark.parametrize("sync", ["batch", "always"])
def test_every_call_is_refused_in_a_child(sync: str, tmp_path: Path) -> None:
    engine = begun(tmp_path, sync=sync)
    for second in range(4):
        engine.push("s", row(second))
    engine.lookup("q")
    before = content(tmp_path)

    def use() -> None:
        words = f"was opened by process {os.getppid()}, and this is process {os.getpid()}"
        for name, call in CALLS.items():
            with pytest.raises(pw.DurabilityError, match=words):
                assert call(engine) is NotImplemented, name
        with pytest.raises(pw.DurabilityError, match="forked"):
            engine.durability.folder.end.append({"kind": "row"})  # type: ignore[union-attr]
        with engine:
            pass  # ends with close()
        engine.close()

    in_child(use)
    assert content(tmp_path) == before
    engine.push("s", row(4))
    assert totals(engine) == [1, 2, 2, 2]
    engine.close()
    assert pw.Engine(tmp_path).stats()["streams"]["s"]["rows"] == 5


def test_a_child_that_ends_leaves_everything(tmp_path: Path) -> None:
    """Whatever is collected or run at its exit: no snapshot, and the lock stays with the parent."""
    engine = begun(tmp_path)
    engine.push("s", row(0))
    before = content(tmp_path)
    held = [engine]
    del engine

    def collected() -> None:
        held.clear()
        gc.collect()

    in_child(collected)
    in_child(weakref.finalize._exitfunc)  # what the interpreter runs at its exit
    engine = held.pop()
    assert content(tmp_path) == before
    with pytest.raises(pw.DurabilityError, match="is open in another engine"):
        pw.Engine(tmp_path)
    engine.push("s", row(1))
    engine.close()


def test_the_lock_ends_with_the_process_that_took_it(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # lives on after its parent has closed the engine
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    engine.close()
    pw.Engine(tmp_path).close()
    os.close(writing)
    os.waitpid(child, 0)


def test_a_child_does_not_wait_for_a_thread_inside(tmp_path: Path) -> None:
    """The turn is taken at the fork, by a thread that the child does not have."""
    engine = begun(tmp_path)
    inside, done = threading.Event(), threading.Event()
    engine.push("s", [row(0), row(1), row(2)])

    def take(table: pa.Table, first: int) -> None:
        inside.set()
        done.wait()

    thread = threading.Thread(target=engine.hand_over, args=("q", take))
    thread.start()
    inside.wait()

    def use() -> None:
        with pytest.raises(pw.DurabilityError, match="forked"):
            engine.push("s", row(3))
        engine.close()

    try:
        in_child(use)
    finally:
        done.set()
        thread.join()
    engine.close()


def test_a_child_may_open_a_folder_of_its_own(tmp_path: Path) -> None:
    engine = begun(tmp_path / "parent")

    def use() -> None:
        with begun(tmp_path / "child") as own:
            own.push("s", row(0))

    in_child(use)
    assert pw.Engine(tmp_path / "child").stats()["streams"]["s"]["rows"] == 1
    engine.close()
    folder = DurableFolder.open(tmp_path / "parent", FileSystem())
    folder.release()


def test_an_archive_is_only_read_in_a_child(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64())])
    archive = Archive.create(tmp_path / "a", schema, key="k", layout=Layout(2, 3, every_us=10, lifetime_us=60))
    rows = pa.table({"k": [1], "_inserted": [1], "_expires": [50]})
    archive.update(1, rows)
    before = content(tmp_path / "a" / "manifests")

    def use() -> None:
        assert archive.scan().num_rows == 1
        for call in (lambda: archive.update(2, rows), archive.compact):
            with pytest.raises(pw.PanewiseError, match="which was forked from it: it can only be read here"):
                call()
        archive.close()
        with pytest.raises(pw.PanewiseError, match="is being written by another process"):
            Archive.open(tmp_path / "a").update(2, rows)

    in_child(use)
    assert content(tmp_path / "a" / "manifests") == before
    archive.update(2, rows)
    archive.close()


def test_an_engine_without_a_folder_goes_on_in_a_child() -> None:
    engine = pw.Engine()
    engine.execute(f"{STREAM}; {QUERY}")
    engine.push("s", row(0))

    def use() -> None:
        engine.push("s", [row(1), row(2)])
        assert totals(engine) == [1, 2]

    in_child(use)
    engine.push("s", row(1))
    assert totals(engine) == [1]

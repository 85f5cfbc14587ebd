"""Interrupts inside the engine: it is whole, or broken and says so; its log has what was acknowledged, and once."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import panewise as pw
from panewise.engine.durability.durable_log import Segment
from panewise.engine.engine import Engine
from panewise.engine.ingest import input_queue
from panewise.engine.ingest.stream import Stream
from panewise.engine.reads.lookups import Lookups
from panewise.operators.family.family import Family
from panewise.operators.family.schedule import MemberSchedule
from panewise.state import durable_files
from tests.line_faults import killed_at
from tests.soak import interrupts

STREAM = "CREATE STREAM s (ts TIMESTAMP, v BIGINT)"
QUERY = "CREATE QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]"
ROWS = [{"ts": 0, "v": 1}, {"ts": 1_000_000, "v": 2}, {"ts": 2_000_000, "v": 4}]


@pytest.mark.parametrize("seed", range(3))
def test_at_random_points(seed: int) -> None:
    assert interrupts.play(seed, calls=20, share=0.5) > 0


def made(path: Path | None = None) -> Engine:
    engine = Engine(path, sync="never")
    engine.execute(STREAM)
    engine.execute(QUERY)
    engine.push("s", ROWS, producer="p", sequence=1)
    return engine


def interrupted_in(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, call: Callable[[], object]) -> None:
    """The call is interrupted when a function of it has returned."""
    method = getattr(owner, name)

    def interrupting(*arguments: object, **named: object) -> None:
        monkeypatch.undo()
        method(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupting)
    with pytest.raises(KeyboardInterrupt):
        call()


READS: dict[str, Callable[[Engine], object]] = {
    "lookup": lambda engine: engine.lookup("q"),
    "results": lambda engine: engine.results("q"),
    "hand_over": lambda engine: engine.hand_over("q", lambda table, first: None),
    "push": lambda engine: engine.push("s", ROWS),
    "execute": lambda engine: engine.execute("SHOW QUERIES"),
    "stats": Engine.stats,
    "snapshot": Engine.snapshot,
    "subscribe": lambda engine: engine.subscribe("q", print),
}


@pytest.mark.parametrize("name", ["lookup", "results", "hand_over"])
def test_a_batch_that_was_interrupted_breaks_the_engine(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = made(tmp_path / "e")
    interrupted_in(monkeypatch, Stream, "_process", lambda: READS[name](engine))
    for call in READS.values():
        with pytest.raises(pw.EngineBroken, match=r"open .* again"):
            call(engine)
    before = sorted(file.name for file in (tmp_path / "e").iterdir())
    engine.close()
    assert sorted(file.name for file in (tmp_path / "e").iterdir()) == before, "it writes no snapshot"
    with Engine(tmp_path / "e") as again:
        assert again.results("q")["total"].to_pylist() == [1, 3]


@pytest.mark.parametrize("name", ["lookup", "results", "hand_over"])
def test_no_answer_after_an_interrupt_is_wrong(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is answered after a batch was interrupted is right, and so is what the closed folder opens with."""
    undisturbed = made()
    engine = made(tmp_path / "e")
    interrupted_in(monkeypatch, Family, "fold", lambda: READS[name](engine))
    undisturbed.push("s", {"ts": 3_000_000, "v": 8})
    for call in (lambda engine: engine.lookup("q"), lambda engine: engine.results("q")):
        with suppress(pw.PanewiseError):
            assert call(engine) == call(made())
    engine.close()
    with Engine(tmp_path / "e") as again:
        again.push("s", {"ts": 3_000_000, "v": 8})
        assert again.lookup("q") == undisturbed.lookup("q")
        assert again.results("q")["total"].to_pylist() == undisturbed.results("q")["total"].to_pylist() == [1, 3, 6]


def loaded(*arguments: object, **named: object) -> None:
    """A compiled loop that Ctrl-C ends while Numba loads it."""
    raise SystemError("CPUDispatcher returned a result with an exception set") from KeyboardInterrupt()


@pytest.mark.parametrize("name", ["fold", "advance", "add", "lookup"])
def test_an_interrupt_that_compiled_code_has_wrapped_is_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: dict[str, Callable[[], object]] = {
        "fold": lambda: engine.results("q"),
        "advance": lambda: engine.results("q"),
        "add": lambda: engine.execute(QUERY.replace("QUERY q", "QUERY other")),
        "lookup": lambda: engine.lookup("q"),
    }
    engine = made(tmp_path / "e")
    if name in ("add", "lookup"):
        engine.stats()  # what was pushed is taken
    monkeypatch.setattr(*((Lookups, "_found") if name == "lookup" else (Family, name)), loaded)
    with pytest.raises(KeyboardInterrupt):
        calls[name]()
    monkeypatch.undo()
    with pytest.raises(pw.EngineBroken):
        engine.execute("SHOW QUERIES")
    engine.close()
    with Engine(tmp_path / "e") as again:
        assert set(again.execute("SHOW QUERIES")["status"].to_pylist()) == {"RUNNING"}
        assert again.results("q")["total"].to_pylist() == [1, 3]


def test_an_interrupted_statement_is_not_taken_back_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = made(tmp_path / "e")
    interrupted_in(
        monkeypatch, MemberSchedule, "add", lambda: engine.execute(QUERY.replace("q AS", "r AS").replace("2 S", "3 S"))
    )
    with pytest.raises(pw.EngineBroken):
        engine.execute("SHOW QUERIES")
    engine.close()
    with Engine(tmp_path / "e") as again:
        assert again.results("q")["total"].to_pylist() == [1, 3]


def test_an_engine_without_a_path_says_that_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made()
    interrupted_in(monkeypatch, Stream, "_process", lambda: engine.lookup("q"))
    with pytest.raises(pw.EngineBroken, match="lost"):
        engine.results("q")
    engine.close()


def test_a_record_that_was_interrupted_is_not_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made(tmp_path / "e")
    push = {"producer": "p", "sequence": 2}
    interrupted_in(monkeypatch, durable_files.os, "writev", lambda: engine.push("s", ROWS[2:], **push))
    assert engine.last_sequence("s", "p") == 1, "nothing was taken, and the engine is whole"
    engine.push("s", [{"ts": 3_000_000, "v": 8}], **push)
    engine.close(snapshot=False)
    with Engine(tmp_path / "e") as again:
        assert again.stats()["streams"]["s"]["rows"] == 4
        assert again.stats()["durability"]["bytes_cut"] == 0
        assert again.results("q")["total"].to_pylist() == [1, 3, 6]


def test_what_a_reader_is_handed_when_it_is_interrupted_comes_again(tmp_path: Path) -> None:
    def interrupted(table: object, first: int) -> None:
        raise KeyboardInterrupt

    taken: list[int] = []
    with made(tmp_path / "e") as engine:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                engine.hand_over("q", interrupted)
        assert engine.hand_over("q", lambda table, first: taken.append(first)) == 2
    assert taken == [0]


def test_a_subscriber_that_is_interrupted_breaks_nothing() -> None:
    def interrupted(batch: object) -> None:
        raise KeyboardInterrupt

    engine, seen = made(), list[object]()
    engine.results("q")
    end = engine.subscribe("q", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.push("s", [{"ts": 3_000_000, "v": 8}])
    end()
    engine.subscribe("q", seen.append)
    engine.push("s", [{"ts": 4_000_000, "v": 16}])
    assert len(seen) == 1 and engine.results("q")["total"].to_pylist() == [6, 12]


def test_a_close_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made(tmp_path / "e")
    assert engine.durability is not None
    interrupted_in(monkeypatch, engine.durability.folder, "begin_anew", engine.close)
    engine.close()
    with Engine(tmp_path / "e") as again:
        assert again.results("q")["total"].to_pylist() == [1, 3]


def test_a_stream_with_a_queue_refuses_rows_of_a_broken_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made()
    engine.execute("CREATE STREAM queued (ts TIMESTAMP, v BIGINT) WITH (queue = 10)")
    engine.push("s", [{"ts": 3_000_000, "v": 8}])
    interrupted_in(monkeypatch, Stream, "_process", lambda: engine.lookup("q"))
    with pytest.raises(pw.EngineBroken):
        engine.push("queued", ROWS)


def test_a_call_inside_another_does_not_end_its_change() -> None:
    """A push, a punctuation or a SHOW inside `hand_over` leaves the mark of the call around it."""
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, a BIGINT)")
    engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    engine.push("s", [{"ts": 0, "a": 1}, {"ts": 2_000_000, "a": 2}])
    marks = []

    def take(table: pa.Table, first: int) -> None:
        for call in (
            lambda: engine.push("s", {"ts": 3_000_000, "a": 3}),
            lambda: engine.push("s", [{"ts": 4_000_000, "a": 3}, {"ts": 4_000_000, "a": 4}]),
            lambda: engine.advance("s", 5_000_000),
            lambda: engine.execute("SHOW QUERIES"),
            lambda: engine.late_rows("s"),
            lambda: engine.bad_rows("s"),
        ):
            call()
            marks.append(engine.turns.change.begun)

    assert engine.hand_over("q", take) == 2
    assert marks == [True] * 6
    assert not engine.turns.change.begun
    assert engine.results("q").num_rows == 3


@pytest.mark.parametrize("call", ["snapshot", "checkpoint"])
def test_an_interrupt_while_a_snapshot_begins_with_the_rows_of_a_lead(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first windows of a query that has just come are folded then, and half of their rows would be missing."""
    engine = pw.Engine(tmp_path)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, a BIGINT)")
    engine.execute("CREATE QUERY day AS SELECT COUNT(*) AS n FROM s [RANGE 1 DAY SLIDE 1 DAY]")
    engine.push("s", [{"ts": second * 1_000_000, "a": 1} for second in range(10)])
    engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Family, "fold", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(engine, call)()
    monkeypatch.undo()
    with pytest.raises(pw.EngineBroken):
        engine.results("q")
    engine.close()
    with pw.Engine(tmp_path) as again:
        again.push("s", [{"ts": second * 1_000_000, "a": 1} for second in range(10, 13)])
        assert again.results("q")["n"].to_pylist() == [2, 2]


def test_an_interrupt_while_a_lookup_answers_what_was_postponed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, a BIGINT)")
    engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    engine.push("s", [{"ts": 0, "a": 1}, {"ts": 2_000_000, "a": 2}])
    flush_all = engine._flusher.flush_all

    def postponing() -> None:
        """All but the reports."""
        flush_all()
        engine.hosting.consumers["q"].postponed.postpone()
        monkeypatch.setattr(Family, "advance", interrupted)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine._flusher, "flush_all", postponing)
    with pytest.raises(KeyboardInterrupt):
        engine.lookup("q")
    monkeypatch.undo()
    with pytest.raises(pw.EngineBroken):
        engine.lookup("q")


def test_an_interrupted_push_to_a_queue_loses_no_row_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows pushed one by one are judged by the next push of a batch, outside all turns."""
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (queue = 4)")
    engine.execute("CREATE QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    stream = engine.streams["s"]
    assert stream.queue is not None
    with engine.turns:  # the queue's thread waits for its turn
        engine.push("s", {"ts": 0, "v": 1})
        engine.push("s", {"ts": 1, "v": 2})

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(stream.judge, "judged", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.push("s", [{"ts": 2, "v": 4}, {"ts": 3, "v": 8}])
        monkeypatch.undo()
        assert stream.queue.rows == 2
    engine.push("s", {"ts": 1_000_000, "v": 16})
    assert engine.results("q")["total"].to_pylist() == [3]
    assert stream.queue.rows == 0


@pytest.mark.parametrize("rows", [[(2, 4)], [(2, 4), (3, 8)]], ids=["a row", "a batch"])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_push_to_a_queue_that_is_interrupted_anywhere_waits_whole_or_not_at_all(
    rows: list[tuple[int, int]], before: int
) -> None:
    push = [{"ts": t, "v": v} for t, v in rows]
    for line in itertools.count():
        engine = pw.Engine()
        engine.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (queue = 8)")
        engine.execute("CREATE QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
        queue = engine.streams["s"].queue
        assert queue is not None
        with engine.turns:  # the queue's thread waits for its turn
            for row in range(before):
                engine.push("s", {"ts": row, "v": 100})
            interrupted = killed_at(line, input_queue.__file__, partial(engine.push, "s", push), by_signal=True)
            engine.push("s", [{"ts": 4, "v": 1000}, {"ts": 5, "v": 0}])
            taken = queue.rows - before - 2
            assert taken == len(rows) or (interrupted and taken == 0)
        engine.push("s", {"ts": 1_000_000, "v": 16})
        total = 100 * before + 1000 + (sum(v for _, v in rows) if taken else 0)
        assert engine.results("q")["total"].to_pylist() == [total]
        assert queue.rows == 0
        if not interrupted:
            break
    assert line > 10


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), pw.DurabilityError("cannot be written")])
def test_results_of_several_queries_are_noted_as_read_together(
    error: BaseException, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the log says of them after an error, before or after a record is there, the engine says too."""
    engine = made(tmp_path)
    engine.execute("CREATE QUERY r AS SELECT COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] WHERE v > 0")
    engine.push("s", {"ts": 5_000_000, "v": 1})
    append, appended = Segment.append, []

    def failing(self: Segment, *arguments: object) -> None:
        appended.append(self)
        if after:
            append(self, *arguments)  # type: ignore[arg-type]
        if after or len(appended) == 2:
            raise error
        append(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Segment, "append", failing)
    with contextlib.suppress(KeyboardInterrupt, pw.DurabilityError):
        engine.hand_over_all(lambda results: None)
    monkeypatch.undo()
    assert len(appended) == 1
    now = Engine.restore(engine.snapshot())
    engine.close(snapshot=False)
    with Engine(tmp_path) as again:
        for name in ("q", "r"):
            assert now.results(name) == again.results(name)

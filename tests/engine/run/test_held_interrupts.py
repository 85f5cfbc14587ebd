"""Ctrl-C while the engine is at work: held until the batch is whole, unless it comes twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from panewise.engine.engine import Engine
from panewise.engine.ingest.stream import Stream
from panewise.engine.run.held_interrupts import interrupts_held
from panewise.errors import EngineBroken
from panewise.serve.cli.run import run_file
from panewise.serve.cli.shell import Shell


@pytest.fixture(autouse=True)
def _interrupts_as_in_a_terminal() -> Iterator[None]:
    """xdist, and shells for what runs in the background, have interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_raised_at_the_end_and_the_second_at_once() -> None:
    done: list[str] = []

    def block(*interrupts: int) -> None:
        with interrupts_held():
            for _ in interrupts:
                interrupt()
                done.append("went on")

    block()
    with pytest.raises(KeyboardInterrupt):
        block(1)
    assert done == ["went on"]
    with pytest.raises(KeyboardInterrupt):
        block(1, 2)
    assert done == ["went on"] * 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_shell_goes_on_with_a_whole_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    flush = Stream.flush

    def interrupted(self: Stream, *arguments: object) -> int:
        interrupt()
        return flush(self, *arguments)  # type: ignore[arg-type]

    engine, out, errors = Engine(), StringIO(), StringIO()
    shell = Shell(engine, Console(file=out), Console(file=errors))
    shell.handle("CREATE STREAM s (ts TIMESTAMP, v BIGINT);")
    shell.handle("CREATE QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND];")
    engine.push("s", [{"ts": 0, "v": 1}, {"ts": 1_000_000, "v": 2}, {"ts": 2_000_000, "v": 4}])
    monkeypatch.setattr(Stream, "flush", interrupted)
    shell.handle("\\lookup q")
    monkeypatch.undo()
    assert "interrupted" in errors.getvalue()
    assert engine.results("q")["total"].to_pylist() == [1, 3]


def test_the_shell_says_that_a_second_interrupt_has_broken_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Stream, *_: object) -> int:
        interrupt()
        interrupt()
        return 0

    engine, errors = Engine(), StringIO()
    shell = Shell(engine, Console(file=StringIO()), Console(file=errors, width=200))
    shell.handle("CREATE STREAM s (ts TIMESTAMP, v BIGINT);")
    engine.push("s", {"ts": 0, "v": 1})
    monkeypatch.setattr(Stream, "_flush", interrupted)
    shell.handle("SHOW STREAMS;")
    monkeypatch.undo()
    assert "left in the middle of a change" in errors.getvalue()
    assert "later ones were not begun" not in errors.getvalue()


def test_a_run_does_not_call_a_broken_engine_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Stream, *_: object) -> int:
        interrupt()
        interrupt()
        return 0

    file = tmp_path / "run.cql"
    file.write_text("CREATE STREAM s (ts TIMESTAMP, size BIGINT) WITH (connector = 'generator', rows = 10);")
    monkeypatch.setattr(Stream, "_flush", interrupted)
    with pytest.raises(EngineBroken, match="in the middle of a change"):
        run_file(file, flush=True, progress=False)
    assert "answered" not in capsys.readouterr().out

"""The figures of Golab 2006, chapter 4, are shown, and a broken promise is noticed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from panewise.state.durable_files import FileSystem
from papers.experiments import PAPER_EXPERIMENTS
from papers.golab2006 import ch4
from papers.golab2006.ch4_runs import (
    EVERY,
    LIFETIME,
    SLOTS,
    TEXT_BYTES,
    ArchiveExtent,
    RowsWithLifetimes,
    Timed,
    techniques,
    timed,
)

SMALL = ArchiveExtent(400_000, updates=3, probes=2, scan_every=1)


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileSystem, "sync", lambda *given: None)
    monkeypatch.setattr(FileSystem, "sync_folder", lambda *given: None)


def test_they_are_found_by_name() -> None:
    assert PAPER_EXPERIMENTS["golab2006-ch4"].module == "golab2006.ch4"
    assert PAPER_EXPERIMENTS["golab2006-ch4-large"].function == "run_large"


def test_the_stream_is_steady_from_the_beginning() -> None:
    extent = ArchiveExtent(4e6, updates=2)
    steady, varying = RowsWithLifetimes(extent), RowsWithLifetimes(extent, fluctuating=True)
    initial = pa.concat_tables(list(steady.initial()))
    assert initial.num_rows == pytest.approx(extent.rows, rel=0.05)
    new = steady.slot(SLOTS + 1)
    assert new.num_rows == extent.rows // 36 and new.equals(steady.slot(SLOTS + 1))
    assert set(map(len, new["text"].to_pylist())) == {TEXT_BYTES}
    lives = [e - i for i, e in zip(new["_inserted"].to_pylist(), new["_expires"].to_pylist(), strict=True)]
    assert 1 <= min(lives) < LIFETIME / 5 and LIFETIME * 4 / 5 < max(lives) <= LIFETIME
    assert all(SLOTS * EVERY < instant <= (SLOTS + 1) * EVERY for instant in new["_inserted"].to_pylist())
    counts = [varying.slot(slot).num_rows for slot in range(1, SLOTS + 1)]
    assert 2 < max(counts) / min(counts) <= 4.2
    assert sum(counts) == pytest.approx(SLOTS * new.num_rows, rel=0.05)


def test_all_techniques_answer_alike(tmp_path: Path) -> None:
    found = timed(techniques(4), RowsWithLifetimes(SMALL), SMALL, tmp_path, lambda: None)
    by_kind = dict(zip(ch4.KINDS, found.values(), strict=True))
    assert ch4.promises({4: by_kind}) == []
    assert [max(each.touched) for each in by_kind.values()] == [3, 3, 3, 4, 4]
    assert all(len(each.update_s) == len(each.scan_s) == 3 and len(each.probe_s) == 6 for each in by_kind.values())
    assert sum(by_kind["Rebuild"].answers) > 1_000


def test_a_broken_promise_is_noticed() -> None:
    layouts = techniques(4)
    right, wrong = Timed(layouts[0], touched=[3], answers=[5, 7]), Timed(layouts[1], touched=[4], answers=[5, 8])
    assert ch4.promises({4: {"Rebuild": right, "NoRebuild": wrong}}) == [
        "answers differ with 4 sub-indices",
        "NoRebuild with 4 sub-indices touched 4 of them, not 3",
    ]


def test_all_of_it_runs_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = []
    monkeypatch.setattr(ch4, "QUICK", ArchiveExtent(100_000, updates=1, probes=1))
    monkeypatch.setattr(ch4, "show_plot", lambda console, name, panels: drawn.append((name, len(panels))))
    monkeypatch.setattr(ch4, "figures_console", lambda: Console(width=150))
    assert ch4.run(quick=True, folder=tmp_path) == 0
    shown = capsys.readouterr().out
    for number in range(4, 9):
        assert f"figure 4.{number}:" in shown
    assert "(theorem 4.1): agrees" in shown and "all techniques gave equal answers" in shown
    assert drawn == [("papers-golab2006-ch4", 3)] and not list(tmp_path.iterdir())

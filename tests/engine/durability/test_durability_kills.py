"""kill -9 at random moments: no acknowledged row is lost, none counted twice, and every answer stays the same.

A process pushes and fetches (`durable_job`); it is killed after a random time, and started again on the same folder. A
fetch that was killed before it returned may have been the reader's last: its rows are all gone or all still there.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import panewise as pw
from tests.engine.durability import durable_job
from tests.places import ROOT


@contextmanager
def job(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.engine.durability.durable_job", str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def killed_after(process: subprocess.Popen[str], seed: int, word: str, seconds: float) -> bool:
    """Has it live another life, and kills that so long after it has said a word; False where it ended by itself."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{seed}\n")
    process.stdin.flush()
    said = process.stdout.readline()
    child = int(said.split()[1])
    while not said.startswith(word):
        said = process.stdout.readline()
    time.sleep(seconds)  # the moment is the thing tested, nothing is waited for
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    finished = False
    while said != "ended\n":
        said = process.stdout.readline()
        assert said, "the job itself has died"
        finished |= said == "finished\n"
    return not finished


def test_killed_at_random_moments(tmp_path: Path, soak: bool, figure: Callable[[str, object], None]) -> None:
    chance = random.Random(20240501)
    kills = 0
    with job(tmp_path) as process:
        while kills < (200 if soak else 5):
            # Some die while they read what the one before has left.
            word, most = chance.choice([("opening", 0.1), ("started", 0.05), ("started", 0.6)])
            kills += killed_after(process, chance.randrange(1 << 30), word, chance.random() * most)
    compare(tmp_path, figure, kills)


def compare(folder: Path, figure: Callable[[str, object], None], kills: int) -> None:
    told = [int(line) for line in (folder / "acknowledged").read_text().split()]
    assert told == sorted(set(told)), "a push was acknowledged twice"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.DurabilityWarning)
        engine = pw.Engine(folder / "engine")
    last = engine.last_sequence("s", "job")
    assert told[-1] <= last <= told[-1] + 1
    undisturbed = pw.Engine()
    durable_job.prepare(undisturbed)
    for push in range(1, last + 1):
        undisturbed.push("s", durable_job.rows_of(push))
    stats, expected = engine.stats(), undisturbed.stats()
    for name in ("rows", "late_rows", "watermark"):
        assert stats["streams"]["s"][name] == expected["streams"]["s"][name]
    assert stats["durability"]["replay_differences"] == 0
    rows = missing = 0
    for name in durable_job.QUERIES:
        assert sorted(map(repr, engine.lookup(name).to_pylist())) == sorted(
            map(repr, undisturbed.lookup(name).to_pylist())
        )
        whole = [repr(row) for row in undisturbed.results(name).to_pylist()]
        assert stats["queries"][name]["results"] == len(whole)
        lost = gaps(folder / f"results.{name}", [repr(row) for row in engine.results(name).to_pylist()], whole)
        rows, missing = rows + len(whole), missing + lost
    assert missing <= kills, "more fetches were cut short than processes were killed"
    engine.close()
    figure(
        "durability: kill -9 at random moments", f"{kills}, {stats['streams']['s']['rows']:,} rows, {rows:,} results"
    )
    figure("durability: fetches that a kill cut short", missing)


def gaps(fetched: Path, unread: list[str], whole: list[str]) -> int:
    """The fetches stand in order in all results, none twice; how many places there are where one was cut short."""
    at, missing = 0, 0
    for part in [*(json.loads(line) for line in fetched.read_text().splitlines()), unread]:
        if whole[at : at + len(part)] != part:
            # Rows of a fetch that never returned come before this one.
            begin = next((i for i in range(at, len(whole)) if whole[i : i + len(part)] == part), None)
            assert begin is not None, "a result was lost, repeated or changed"
            at, missing = begin, missing + 1
        at += len(part)
    return missing + (at != len(whole))

"""Every file operation of the log of results fails, is torn, or is the last before the process or the power goes."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import pytest

from panewise.errors import DurabilityError, DurabilityWarning
from panewise.serve.http.results.result_log import ResultLog
from panewise.state.durable_files import FileSystem
from tests.faulty_files import FAILURES, KILLS, FaultyFiles, Killed
from tests.serve.http.results.test_result_log import SCHEMA, held, rows

KEEP = 40
QUERIES = ("a", "b")


class Player:
    """A producer that knows what it was promised, and a log that dies and is opened again under it."""

    def __init__(self, path: Path, files: FileSystem, later: list[FileSystem], keep_total: int = 1 << 30) -> None:
        self.path = path
        self.keep_total = keep_total
        self.files = files
        self.later = later  # those of the processes after the first
        self.produced = dict.fromkeys(QUERIES, 0)  # rows so far
        self.handed = dict.fromkeys(QUERIES, 0)  # of which so many were taken for certain
        self.histories = dict.fromkeys(QUERIES, 0)
        self.ids: dict[str, str] = {}
        self.deaths = self.refusals = 0
        self.log = self._opened()

    def _opened(self) -> ResultLog:
        options = {"keep_rows": KEEP, "keep_bytes": 1 << 30, "segment_bytes": 3_000, "keep_total": self.keep_total}
        while True:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DurabilityWarning)
                    return ResultLog(self.path, files=self.files, **options)
            except Killed:
                self._died()
            except (DurabilityError, OSError):
                self.refusals += 1

    def _died(self) -> None:
        self.deaths += 1
        self.files = self.later.pop(0) if self.later else FaultyFiles()

    def restart(self) -> None:
        """What the end of a process does, and the next one."""
        assert self.log._segments is not None
        self.log._segments.close()
        self.log = self._opened()
        self.check()

    def produce(self, counts: dict[str, int]) -> None:
        """So many more rows of each query, handed over in one call until it has returned."""
        for query, count in counts.items():
            self.produced[query] += count
        while True:
            parts = []
            for query in counts:
                first, count = self.handed[query], self.produced[query] - self.handed[query]
                parts.append((query, rows(first, count, self.histories[query]), first))
            try:
                self.log.append_all(parts)
            except Killed:
                self._died()
                self.restart()
                continue
            except DurabilityError:
                self.refusals += 1
                for query in counts:  # nothing was taken, though a series may have been begun
                    assert query not in self.log.names() or self.log.bounds(query)[1] == self.handed[query]
                continue
            for query in counts:
                self.handed[query] = self.produced[query]
                self.ids[query] = self.log.series(query).id
            self.check()
            return

    def drop(self, query: str) -> None:
        """As a server does: the query ends, it is forgotten, and only then there may be another of its name."""
        self.ids.pop(query, None)
        while True:
            try:
                self.log.forget(query)
                break
            except Killed:
                self._died()
                self.restart()
            except DurabilityError:
                self.refusals += 1
        self.histories[query] += 1
        self.produced[query] = self.handed[query] = 0
        while True:
            try:
                self.ids[query] = self.log.begin(query, SCHEMA).id
                break
            except Killed:
                self._died()
                self.restart()
            except DurabilityError:
                self.refusals += 1

    def check(self) -> None:
        for query, id in self.ids.items():
            assert self.log.series(query).id == id
            first, end = self.log.bounds(query)
            # What was acknowledged is there; what was on its way may be.
            assert self.handed[query] <= end <= self.produced[query]
            assert first <= max(0, end - KEEP)
            history = 1_000_000 * self.histories[query]
            assert held(self.log, query) == [history + number for number in range(first, end)]


def play(
    path: Path, files: FileSystem, later: list[FileSystem] | None = None, seed: int = 1, keep_total: int = 1 << 30
) -> Player:
    player = Player(path, files, later or [], keep_total)
    chance = random.Random(seed)
    for step in range(40):
        query = chance.choice(QUERIES)
        if step % 13 == 12:
            player.drop(query)
        elif step % 17 == 16:
            player.restart()
        else:
            chosen = QUERIES if chance.random() < 0.4 else (query,)
            player.produce({query: chance.randint(1, 25) for query in chosen})
    player.restart()
    return player


def test_undisturbed(tmp_path: Path) -> None:
    player = play(tmp_path, FaultyFiles())
    assert player.deaths == player.refusals == 0
    assert sum(player.produced.values()) > 100
    assert len(list(tmp_path.glob("removed-*"))) > 3  # files went, so that their going is disturbed too


@pytest.mark.parametrize("keep_total", [1 << 30, 400])
@pytest.mark.parametrize("how", [*KILLS, *FAILURES])
def test_at_every_file_operation(how: str, keep_total: int, tmp_path: Path, soak: bool) -> None:
    """`keep_total`: bytes in memory; what is more is read from the disk."""
    counting = FaultyFiles()
    play(tmp_path / "counted", counting, keep_total=keep_total)
    assert counting.count > 30
    operations = range(1, counting.count + 1)
    chosen = operations if soak else random.Random(how).sample(operations, min(12, len(operations) // 8))
    disturbed = 0
    for at in sorted(chosen):
        player = play(tmp_path / f"at-{at}", FaultyFiles(at, how), keep_total=keep_total)
        disturbed += player.deaths + player.refusals
    # What cannot be moved out of memory, or tidied, for now is not noticed outside.
    assert disturbed > len(chosen) // (2 if keep_total > 400 else 8)


def test_one_death_after_another(tmp_path: Path, soak: bool) -> None:
    chance = random.Random(7)
    deaths = 0
    for number in range(300 if soak else 5):
        later: list[FileSystem] = [FaultyFiles(chance.randint(1, 25), chance.choice(KILLS)) for _ in range(5)]
        player = play(tmp_path / str(number), FaultyFiles(chance.randint(1, 50), chance.choice(KILLS)), later, number)
        deaths += player.deaths
    assert deaths > number * 3

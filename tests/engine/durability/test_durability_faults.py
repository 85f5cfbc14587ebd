"""Every file operation of a durable engine fails, is torn, or is the last one before the process or the power goes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.durability.durable_script import Player, run, undisturbed
from tests.faulty_files import FAILURES, KILLS, FaultyFiles


@pytest.fixture(scope="module")
def expected() -> Player:
    return undisturbed()


def test_undisturbed_files_change_nothing(tmp_path: Path, expected: Player) -> None:
    player = run(tmp_path / "engine", FaultyFiles(), expected)
    assert player.deaths == player.refusals == 0
    assert sum(len(rows) for parts in expected.handed.values() for rows in parts) > 100


@pytest.mark.parametrize("how", [*KILLS, *FAILURES])
def test_at_every_file_operation(
    how: str, tmp_path: Path, expected: Player, soak: bool, figure: Callable[[str, object], None]
) -> None:
    """Each operation in turn; a sixteenth of them, each time the same, where time is short."""
    counting = FaultyFiles()
    run(tmp_path / "counted", counting, expected)
    operations = range(1, counting.count + 1)
    chosen = operations if soak else random.Random(how).sample(operations, len(operations) // 16)
    disturbed = 0
    for at in sorted(chosen):
        player = run(tmp_path / f"at-{at}", FaultyFiles(at, how), expected)
        disturbed += player.deaths + player.refusals
    # Some failures are only told: those of what can be removed later.
    assert disturbed > len(chosen) // 2
    figure(f"durability: '{how}' at file operations", f"{len(chosen)} of {len(operations)}, nothing lost or repeated")


def test_one_death_after_another(
    tmp_path: Path, expected: Player, soak: bool, figure: Callable[[str, object], None]
) -> None:
    """What a death has left is read by a process that dies over it, and so on."""
    chance = random.Random(7)
    deaths = 0
    for number in range(300 if soak else 4):
        # Most operations of a start come first: those of reading what there is.
        later = [FaultyFiles(chance.randint(1, 12), chance.choice(KILLS)) for _ in range(3)]
        first = FaultyFiles(chance.randint(1, 90), chance.choice(KILLS))
        deaths += run(
            tmp_path / str(number), first, expected, later=later, snapshot_every=chance.choice((2_000, 1 << 30))
        ).deaths
    assert deaths > number * 3
    figure("durability: deaths upon deaths at file operations", f"{deaths}, nothing lost or repeated")

"""kill -9 at random moments, as in `tests/engine/durability/test_durability_kills.py`: as many as a seed says."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.engine.durability.test_durability_kills import compare, job, killed_after


def play(seed: int, kills: int = 10) -> int:
    """One folder that outlives so many kills; returns how many there were."""
    chance = random.Random(seed)
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        with job(Path(folder)) as process:
            while killed < kills:
                # Some die while they read what the one before has left.
                word, most = chance.choice([("opening", 0.1), ("started", 0.05), ("started", 0.6)])
                killed += killed_after(process, chance.randrange(1 << 30), word, chance.random() * most)
        try:
            compare(Path(folder), lambda *figure: None, killed)
        except (AssertionError, OSError) as problem:
            raise AssertionError(f"seed {seed}, {killed} kills: {problem}") from problem
    return killed

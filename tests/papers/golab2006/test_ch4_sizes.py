"""Sizes of sub-indices: appendix A of Golab 2006 against counting, and counting against what archives hold."""

from __future__ import annotations

from math import isqrt
from pathlib import Path

import numpy as np
import pytest

from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from papers.golab2006.ch4_sizes import (
    counted,
    counted_sizes,
    exact_chronological,
    exact_round_robin,
    lemma_a1,
    lemma_a2,
)
from tests.archive.plain_table import SCHEMA, table_of


@pytest.mark.parametrize("n", [4, 9, 16, 25])
@pytest.mark.parametrize("slots", [2, 3, 6, 12])
def test_the_lemmas_and_what_is_true(n: int, slots: int) -> None:
    k = isqrt(n)
    p = k * slots
    chronological, round_robin = counted(Layout(k, k, 1, p, "chronological")), counted(Layout(k, k, 1, p))
    assert chronological == pytest.approx(exact_chronological(p, n))
    assert round_robin == pytest.approx(exact_round_robin(p, n))
    # As printed: exact in one case, otherwise on the safe side of theorem 4.1.
    assert lemma_a1(p, n) == pytest.approx(chronological) if n == 4 else lemma_a1(p, n) < chronological
    assert lemma_a2(p, n) > round_robin
    assert round_robin < chronological


@pytest.mark.parametrize("order", ["chronological", "round_robin"])
def test_archives_hold_what_was_counted(order: str, tmp_path: Path) -> None:
    """One row for every insertion slot and every length of life up to p slots."""
    p = 12
    layout = Layout(3, 3, 1, p, order)  # type: ignore[arg-type]
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=layout, grace_s=0)
    for slot in range(1, 3 * p):
        archive.update(slot, table_of([(life, "", slot, slot + life) for life in range(1, p + 1)]))
        if slot >= p:
            sizes = np.zeros(9, np.int64)
            for file in archive.manifest.files:
                sizes[file.sub_index] += file.rows
            assert sizes.tolist() == counted_sizes(layout, slot).tolist()


def test_random_lives_come_near_the_expected_sizes() -> None:
    """Uniform lives in microseconds, a slot of a thousand: deviations as counted, and a little of chance."""
    p, each, chance = 16, 400, np.random.default_rng(3)
    found = {}
    for order in ("chronological", "round_robin"):
        layout = Layout(4, 4, 1_000, 1_000 * p, order)  # type: ignore[arg-type]
        deviations = []
        for now in range(2 * p * 1_000, 3 * p * 1_000, 1_000):
            inserted = chance.integers(now - 1_000 * p + 1, now + 1, each * p)
            expires = inserted + chance.integers(1, 1_000 * p + 1, each * p)
            alive = expires > now
            sizes = np.bincount(layout.places(inserted[alive], expires[alive]), minlength=16)
            # A unit is the rows of a slot over the slots that a life may end in.
            deviations.append(((sizes - sizes.mean()) ** 2).sum() / (each / p) ** 2)
        found[order] = float(np.mean(deviations))
    assert found["chronological"] == pytest.approx(exact_chronological(p, 16), rel=0.15)
    # Rows of half slots are counted as halves here, so that even sizes are even more even than whole units.
    assert found["round_robin"] < 1.2 * exact_round_robin(p, 16)

"""The cost model: what it says of G x E, and that it is fed by what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from panewise.archive.archive import Archive
from panewise.archive.cost import ArchiveWorkload, Seconds, calibrated, cheapest, cost, workload_of
from panewise.archive.layout import Layout
from tests.archive.plain_table import SCHEMA, table_of

UPDATED = ArchiveWorkload(5e8, 1.4e7, updates=1, probes=1, scans=0)


def layout(insertion: int, expiration: int, style: str = "rebuild") -> Layout:
    return Layout(insertion, expiration, 1, 36, style=style)  # type: ignore[arg-type]


def test_by_hand() -> None:
    seconds = Seconds(update_file_s=2, update_byte_s=3, read_file_s=5, read_byte_s=7)
    workload = ArchiveWorkload(bytes_held=80, bytes_new=4, updates=1, probes=0, scans=0)
    assert cost(layout(2, 4), workload, seconds) == 5 * 2 + 80 * 5 / 8 * 3
    assert cost(layout(2, 4, "no_rebuild"), workload, seconds) == 5 * 2 + (80 * 2 / 8 + 4) * 3
    probed = ArchiveWorkload(80, 4, updates=0, probes=3, scans=2)
    assert cost(layout(2, 2), probed, seconds) == 3 * 4 * 5 + 2 * (4 * 5 + 80 * 7)
    # One of 4 sub-indices has a run beside its file: of a row of 2, one loses rows before it gains the next run.
    assert cost(layout(2, 2, "no_rebuild"), probed, seconds) == 3 * 5 * 5 + 2 * (5 * 5 + 80 * 7)


@pytest.mark.parametrize("parts", [4, 9, 16, 36])
def test_equal_sides_are_best_for_a_number_of_sub_indices(parts: int) -> None:
    shapes = [layout(side, parts // side) for side in range(1, parts + 1) if parts % side == 0]
    best = min(shapes, key=lambda shape: cost(shape, UPDATED, Seconds()))
    assert best.insertion_parts == best.expiration_parts


def test_more_probes_mean_fewer_files_and_more_data_means_more() -> None:
    often = [ArchiveWorkload(5e8, 1e7, 1, probes, 0) for probes in (0.1, 1, 10, 100, 1000)]
    chosen = [cheapest(workload, 1, 36, styles=["rebuild"]).parts for workload in often]
    assert chosen == sorted(chosen, reverse=True) and chosen[0] > chosen[-1]
    grown = [
        cheapest(ArchiveWorkload(size, 1e7, 1, 1, 0), 1, 36, styles=["rebuild"]).parts for size in (1e6, 1e8, 1e10)
    ]
    assert grown == sorted(grown) and grown[0] < grown[-1]
    # Golab 2006, section 4.4.6: NoRebuild for few queries, Rebuild for many.
    assert cheapest(ArchiveWorkload(5e8, 1e7, 1, 0.1, 0), 1, 36).style == "no_rebuild"
    assert cheapest(ArchiveWorkload(5e8, 1e7, 0.01, 100, 0), 1, 36).style == "rebuild"


def test_it_is_fed_by_what_is_measured(tmp_path: Path) -> None:
    seconds = calibrated(tmp_path / "calibration")
    assert 0 < seconds.update_byte_s < 1e-5 and seconds.update_file_s > seconds.update_byte_s
    archive = Archive.create(tmp_path / "archive", SCHEMA, key="key", layout=layout(2, 2))
    archive.update(1, table_of([(1, "a", 1, 30)]))
    for _ in range(5):
        archive.probe(1)
    workload = workload_of(archive)
    assert workload.bytes_held == archive.manifest.files[0].bytes
    assert workload.probes == pytest.approx(5 * workload.updates, rel=0.5) and workload.scans == 0
    assert cheapest(workload, 1, 36, seconds).name == "Rebuild1x1"

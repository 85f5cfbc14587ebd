"""Golab 2006, figures 4.9 to 4.11: the times of `papers_001_4` by number of sub-indices, at 5 GB."""

from __future__ import annotations

from pathlib import Path

from panewise.serve.papers import papers_001_4


def run(quick: bool, folder: Path | None) -> int:
    extent = papers_001_4.QUICK if quick else papers_001_4.LARGE
    return papers_001_4.reproduce(extent, folder, "papers-001-4-large", everything=False)

"""Where things stand in the source tree, for tests in any folder."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests" / "cases"
DOCS = ROOT / "docs"
GOLDEN = ROOT / "tests" / "golden"
SOURCES = ROOT / "src"

"""The page on techniques names those that there are, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from panewise.synopses.techniques import TECHNIQUES


def test_the_table_lists_every_technique() -> None:
    page = (Path(__file__).parents[1] / "docs" / "techniques.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(TECHNIQUES)

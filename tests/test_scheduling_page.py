"""The code of docs/scheduling.md runs, and does what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import panewise as pw

PAGE = (Path(__file__).parents[1] / "docs" / "scheduling.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_python_prints_what_stands_below() -> None:
    (code,), (expected,) = blocks("python"), blocks("text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/scheduling.md", "exec"), {"__name__": "page"})  # noqa: S102 - our own text
    assert printed.getvalue() == expected


def test_the_panel_is_refreshed_every_six_seconds() -> None:
    engine = pw.Engine()
    (statements,) = blocks("sql")
    engine.execute(statements)
    assert "SLIDE 6 SECONDS" in str(engine.explain("panel")) and "`panel` gets 6 seconds" in PAGE

"""The code of the pages in docs runs, in order, and prints what they say."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from tests.test_readme import BLOCK

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {
    "aggregates": 1,
    "archive": 4,
    "durability": 5,
    "isolation": 5,
    "overload": 2,
    "streams": 5,
}  # how many blocks print something


@pytest.mark.parametrize("name", PAGES)
def test_blocks_print_the_text_below_them(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "archive":
        pytest.importorskip("duckdb")
    page = DOCS / f"{name}.md"
    monkeypatch.chdir(tmp_path)
    found = [(match[1], match[2]) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    assert [language for language, _ in found] == ["python", "text"] * PAGES[name]
    names: dict[str, object] = {"__name__": "page"}  # a block may use what those before it have made
    for (_, code), (_, expected) in zip(found[::2], found[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)  # noqa: S102 - our own text
        assert printed.getvalue() == expected

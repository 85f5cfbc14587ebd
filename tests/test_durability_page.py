"""The code of docs/durability.md runs, in order, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from tests.test_readme import BLOCK

PAGE = Path(__file__).parents[1] / "docs" / "durability.md"


def test_blocks_print_the_text_below_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8")) if match[1]]
    names: dict[str, object] = {"__name__": "page"}
    assert [language for language, _ in found] == ["python", "text"] * 5
    for (_, code), (_, expected) in zip(found[::2], found[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - our own text
        assert printed.getvalue() == expected

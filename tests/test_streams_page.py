"""The code of docs/streams.md runs, in order, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from tests.test_readme import BLOCK

PAGE = Path(__file__).parents[1] / "docs" / "streams.md"


def test_blocks_print_the_text_below_them() -> None:
    found = [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
    names: dict[str, object] = {"__name__": "page"}
    assert [language for language, _ in found] == ["python", "text"] * 3
    for (_, code), (_, expected) in zip(found[::2], found[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - our own text
        assert printed.getvalue() == expected

"""Every code block of README.md runs, in order, and prints what README says that it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import panewise

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in BLOCK.finditer(README.read_text(encoding="utf-8"))]


def test_python_blocks_print_the_text_below_them() -> None:
    found = blocks()
    names: dict[str, object] = {"__name__": "readme"}
    for position, (language, code) in enumerate(found):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), names)  # noqa: S102 - our own text
        following, expected = found[position + 1] if position + 1 < len(found) else ("", "")
        if following == "text":
            assert printed.getvalue() == expected


def test_sql_blocks_are_statements() -> None:
    statements = [code for language, code in blocks() if language == "sql"]
    assert statements
    for text in statements:
        panewise.Engine().execute(text)


def test_links_and_pictures_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target

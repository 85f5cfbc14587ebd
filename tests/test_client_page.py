"""The code of docs/client.md runs against a server, in order, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from panewise.serve.http.service.settings import Settings
from tests.serve.client.running_server import running_server
from tests.test_readme import BLOCK

PAGE = Path(__file__).parents[1] / "docs" / "client.md"
ADDRESS = "http://127.0.0.1:8461"


def test_blocks_print_the_text_below_them(tmp_path: Path) -> None:
    found = [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8")) if match[1]]
    names: dict[str, object] = {"__name__": "page"}
    assert [language for language, _ in found] == ["python", "text"] * 5
    with running_server(Settings(port=0, path=tmp_path / "shop")) as server:
        for (_, code), (_, expected) in zip(found[::2], found[1::2], strict=True):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code.replace(ADDRESS, server.url), str(PAGE), "exec"), names)  # noqa: S102 - our own text
            assert printed.getvalue() == expected
        names["client"].close()  # type: ignore[attr-defined]

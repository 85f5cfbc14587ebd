"""The commands of docs/server.md run, in order, and print what the page says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serve.http.serving import process
from tests.test_readme import BLOCK
from tests.waiting import PATIENCE_S

PAGE = Path(__file__).parents[1] / "docs" / "server.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page speaks of curl")
def test_commands_print_the_text_below_them(tmp_path: Path) -> None:
    found = [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
    commands = [(i, text) for i, (language, text) in enumerate(found) if language == "bash" and "curl" in text]
    assert len(commands) >= 10
    with process("--path", str(tmp_path / "shop")) as server:
        address = str(server.client.base_url).rstrip("/")
        for position, command in commands:
            text = command.replace("http://127.0.0.1:8461", address)
            done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
            language, expected = found[position + 1]
            assert language in ("json", "text")
            assert done.stdout.strip() == expected.strip(), command

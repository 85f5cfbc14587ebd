"""The code of docs/live.md runs against a real server and prints what the page says, curl too where there is one."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import panewise as pw
from panewise.serve.http.service.settings import Settings
from tests.serve.client.running_server import Running, running_server
from tests.test_readme import BLOCK
from tests.waiting import PATIENCE_S

PAGE = Path(__file__).parents[1] / "docs" / "live.md"
BLOCKS = [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
ADDRESS = "127.0.0.1:8461"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running_server(Settings(port=0)) as running:
        with pw.connect(running.url) as client:
            client.execute("CREATE STREAM sales (ts TIMESTAMP, item STRING, price BIGINT)")
            client.execute(
                "CREATE QUERY turnover AS SELECT SUM(price) AS total FROM sales [RANGE 2 SECONDS SLIDE 1 SECOND]"
            )
            client.push("sales", [{"ts": 0, "item": "tea", "price": 3}, {"ts": 1_000_000, "item": "cup", "price": 8}])
            client.advance("sales", "1970-01-01 00:00:02")
            client.results("turnover")  # both rows are there
        yield running


def test_python_prints_the_text_below_it(server: Running) -> None:
    names: dict[str, object] = {"__name__": "page"}
    found = [(code, BLOCKS[index + 1]) for index, (language, code) in enumerate(BLOCKS) if language == "python"]
    assert len(found) == 2
    for code, (language, expected) in found:
        assert language == "text"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code.replace(ADDRESS, f"127.0.0.1:{server.port}"), str(PAGE), "exec"), names)  # noqa: S102 - our own text
        assert printed.getvalue() == expected


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_prints_the_text_below_it(server: Running) -> None:
    (index,) = [index for index, (language, _) in enumerate(BLOCKS) if language == "bash"]
    command = BLOCKS[index][1].replace(ADDRESS, f"127.0.0.1:{server.port}")
    command = command.replace("curl", f"exec curl -s --noproxy '*' -m {PATIENCE_S:.0f}")
    expected = BLOCKS[index + 1][1].rstrip("\n").splitlines()
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True) as curl:
        assert curl.stdout is not None
        printed = [line.rstrip("\n") for line in islice(curl.stdout, len(expected))]
        curl.kill()  # the stream does not end
    assert [re.sub(r"[0-9a-f]{32}", "5f0c...", line) for line in printed] == expected


def test_the_messages_of_the_page_are_those_that_are_sent() -> None:
    """The table has a line for every type of message."""
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    folder = Path(pw.__file__).parent / "serve" / "http" / "live"
    sources = [(folder / name).read_text(encoding="utf-8") for name in ("live_reader.py", "live_sockets.py")]
    sent = {kind for text in sources for kind in re.findall(r'(?:_message\(|Message\(|"type": )"(\w+)"', text)}
    assert sent - {"pause", "resume", "subscribe", "unsubscribe"} == told

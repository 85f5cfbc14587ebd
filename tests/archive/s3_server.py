"""A small object store that speaks the S3 protocol over HTTP, as far as Arrow's client does; keys are flat, as in S3.

One bucket, everything in memory, no signatures looked at. A write is there as a whole when its request has ended, and
not before; a list gives what is there. It takes bodies as the client sends them: whole, in chunks of HTTP, or in chunks
of their own (`aws-chunked`) within those.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
_DATE = "2024-01-01T00:00:00.000Z"
_HEADER_DATE = "Mon, 01 Jan 2024 00:00:00 GMT"


class ObjectStore(ThreadingHTTPServer):
    """`objects` by key; `requests`: method and key of each, in order; `sent`: bytes of answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.refuse_writes = False
        self.sent = 0

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    store = ObjectStore()
    thread = threading.Thread(target=store.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield store
    finally:
        store.shutdown()
        thread.join()
        store.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body of an answer go together, so that nobody waits for an acknowledgement
    disable_nagle_algorithm = True
    server: ObjectStore

    def handle_expect_100(self) -> bool:
        """The client waits for this before it sends a body."""
        go_on = super().handle_expect_100()
        self.wfile.flush()
        return go_on

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        if bucket != BUCKET:
            self._fail(404, "NoSuchBucket")
            return "", {"failed": ""}
        self.server.requests.append((self.command, key))
        given = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return key, given

    def do_HEAD(self) -> None:
        key, given = self._asked()
        if "failed" in given:
            return
        if key and key not in self.server.objects:
            self._fail(404, "NoSuchKey")
        elif key:
            self._send(200, self.server.objects[key], {"ETag": '"x"', "Last-Modified": _HEADER_DATE})
        else:
            self._send(200, b"")

    def do_GET(self) -> None:
        key, given = self._asked()
        if "failed" in given:
            return
        if not key:
            self._list(given)
            return
        data = self.server.objects.get(key)
        if data is None:
            self._fail(404, "NoSuchKey")
            return
        headers = {"ETag": '"x"', "Last-Modified": _HEADER_DATE}
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, data, headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        begin, end = int(first), min(int(last or len(data) - 1), len(data) - 1)
        self._send(206, data[begin : end + 1], {**headers, "Content-Range": f"bytes {begin}-{end}/{len(data)}"})

    def do_PUT(self) -> None:
        key, given = self._asked()
        data = self._body()
        if "failed" in given:
            return
        if self.server.refuse_writes:
            self._fail(403, "AccessDenied")
            return
        if "uploadId" in given:
            self.server.uploads[given["uploadId"]][int(given["partNumber"])] = data
        elif key:
            self.server.objects[key] = data
        self._send(200, b"", {"ETag": f'"{md5(data, usedforsecurity=False).hexdigest()}"'})

    def do_POST(self) -> None:
        key, given = self._asked()
        self._body()
        if "failed" in given:
            return
        if "uploads" in given:
            number = uuid.uuid4().hex
            self.server.uploads[number] = {}
            self._xml(f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>")
        else:
            parts = self.server.uploads.pop(given["uploadId"])
            self.server.objects[key] = b"".join(parts[number] for number in sorted(parts))
            self._xml('<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>')

    def do_DELETE(self) -> None:
        key, given = self._asked()
        if "failed" not in given:
            self.server.objects.pop(key, None)
            self._send(204, b"")

    def _list(self, given: dict[str, str]) -> None:
        prefix, delimiter = given.get("prefix", ""), given.get("delimiter", "")
        found, folders = [], set()
        for key in sorted(self.server.objects):
            if key.startswith(prefix):
                head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
                if cut:
                    folders.add(prefix + head + cut)
                else:
                    found.append(key)
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[key])}</Size>"
            f'<LastModified>{_DATE}</LastModified><ETag>"x"</ETag></Contents>'
            for key in found
        )
        below = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders))
        count = f"<KeyCount>{len(found) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        self._xml(f"<ListBucketResult>{count}{contents}{below}</ListBucketResult>")

    # -- requests and answers ----------------------------------------------------------------------------------------

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = b"".join(_chunks(self.rfile))
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            data = b"".join(_chunks(BytesIO(data)))
        return data

    def _xml(self, text: str) -> None:
        self._send(200, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode(), {"Content-Type": "application/xml"})

    def _fail(self, status: int, code: str) -> None:
        self._send(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.server.sent += len(data)
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test says what it wants to say."""


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    """The data of a body in chunks; what stands behind them (checksums) is passed over."""
    while size := int(source.readline().split(b";")[0] or b"0", 16):
        yield source.read(size)
        source.readline()
    while source.readline().strip():
        pass

"""A server in a thread of this process, and a proxy in front of it that breaks connections when it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from panewise.serve.http.backends.engine_backend import EngineBackend
from panewise.serve.http.server import Server, listen
from panewise.serve.http.service.settings import Settings
from tests.waiting import PATIENCE_S, until


@dataclass(frozen=True)
class Running:
    url: str
    port: int
    backend: EngineBackend


@contextlib.contextmanager
def running_server(settings: Settings) -> Iterator[Running]:
    """A server on a port of loopback that it picks, unless the settings name one."""
    backend = EngineBackend(settings)
    listening = listen(settings)
    server = Server(settings, backend)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        assert server.started
        port = listening.getsockname()[1]
        yield Running(f"http://127.0.0.1:{port}", port, backend)
    finally:
        server.stop()
        thread.join(PATIENCE_S)
        listening.close()
        backend.close()
        assert not thread.is_alive()


class Proxy:
    """Passes bytes on between clients and a server.

    `cut()` breaks all connections; `swallow_answer()` lets the next request through and breaks the connection when its
    answer begins, so that the client cannot know what has happened.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.cuts = 0
        self._swallows = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            opened, self._open = self._open, set()
        for one in opened:
            _break(one)
        self.cuts += bool(opened)

    def swallow_answer(self) -> None:
        self._swallows.set()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        _break(self._listening)
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listening.accept()[0]
                try:
                    server = socket.create_connection(("127.0.0.1", self._server_port))
                except OSError:
                    _break(client)
                    continue
                with self._lock:
                    self._open |= {client, server}
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(source, target, source is server), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_answer and self._swallows.is_set():
                    self._swallows.clear()
                    self.cuts += 1
                    break
                target.sendall(data)
        _break(source)
        _break(target)


def _break(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()

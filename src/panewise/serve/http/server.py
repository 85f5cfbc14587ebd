"""Runs the server: uvicorn on one socket, with a shutdown that loses nothing.

On SIGTERM or SIGINT the server accepts no more connections, answers requests that have begun, tells live connections
that it ends, and then closes the backend, which takes the last results and writes a snapshot. A second signal stops
waiting for requests; acknowledged pushes are safe even then, because they were logged before.

The first line on standard output is the address, printed when connections are accepted.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn

from panewise.errors import PanewiseError
from panewise.serve.http.app import make_app
from panewise.serve.http.gate.header_limits import http_protocol
from panewise.serve.http.gate.remarks import remarks
from panewise.serve.http.live.live_routes import subscribers_of
from panewise.serve.http.service import logs
from panewise.serve.http.service.backend import Backend
from panewise.serve.http.service.settings import Settings

BACKLOG = 2_048


def run(settings: Settings, backend: Backend, announce: Callable[[str], None] | None = None) -> None:
    """Serves until a signal comes, then closes the backend. `announce` is called with the address when it listens."""
    try:
        settings.check()
        listening = listen(settings)
        try:
            logs.configure(settings.log)
            for remark in remarks(settings):
                logs.LOGGER.warning(remark)
            server = Server(settings, backend)
            address = address_of(settings, listening)
            (announce or _print_address)(address)
            logs.event("serving", address=address, backend=backend.kind, path=str(settings.path or ""))
            server.run([listening])
        finally:
            listening.close()
    finally:
        backend.close()
        logs.event("closed")


def listen(settings: Settings) -> socket.socket:
    """A listening socket; PanewiseError if the address cannot be used."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise PanewiseError(
            f"the server cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
            hint="choose another port with --port, or --port 0 for any free one",
        ) from None
    return listening


def address_of(settings: Settings, listening: socket.socket) -> str:
    """The URL of the server, with the real port if the setting is 0."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listening.getsockname()[1]}"


def _print_address(address: str) -> None:
    sys.stdout.write(address + "\n")
    sys.stdout.flush()


class Server(uvicorn.Server):
    """uvicorn's server with our application; `stop` may be called from any thread."""

    def __init__(self, settings: Settings, backend: Backend) -> None:
        app = make_app(backend, settings)
        config = uvicorn.Config(
            app,
            http=http_protocol(),
            log_config=None,
            log_level="warning",  # at lower levels it logs the addresses of WebSockets, which include tokens
            access_log=False,
            server_header=False,
            lifespan="off",
            proxy_headers=False,
            ws_max_size=1 << 20,
            ws_ping_interval=20.0,
            ws_per_message_deflate=False,  # compression would cost more processor time than everything else
            timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
            timeout_keep_alive=30,
            backlog=BACKLOG,
        )
        super().__init__(config)
        self._app = app
        self._seconds = settings.shutdown_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Overrides uvicorn, which would raise the signal again and end the process before the backend is closed."""
        logs.event("ending", signal=signal.Signals(sig).name)
        self.force_exit = self.should_exit
        self.should_exit = True

    def stop(self) -> None:
        """Ends the server as a signal does."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops accepting, then ends live connections, which would never end by themselves."""
        for server in self.servers:
            server.close()
        # Move the results of acknowledged pushes to the log, so that subscribers get them.
        serving = self._app.state.serving
        await serving.work(serving.backend.settle)
        await subscribers_of(self._app).close(self._seconds)
        await super().shutdown(sockets)

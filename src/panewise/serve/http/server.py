"""Running the server: uvicorn on one socket, and an end that loses nothing.

SIGTERM and SIGINT: no more connections are accepted, requests that have begun are answered, live connections are told
that the server ends, and then the backend is closed, which takes the last results and writes a snapshot. A second
signal does not wait for requests any more; what was acknowledged is safe even then, because it was logged before.

The first line on standard output is the address, when connections are accepted.
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
    """Serves until a signal comes, and closes the backend. `announce` is told the address once it is listened on."""
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
    """A socket on which connections wait to be accepted."""
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
            hint="another port: --port, or --port 0 for any that is free",
        ) from None
    return listening


def address_of(settings: Settings, listening: socket.socket) -> str:
    """Where it can be reached; port 0 has become one."""
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
            log_level="warning",  # below that it writes the addresses of WebSockets, tokens among them
            access_log=False,
            server_header=False,
            lifespan="off",
            proxy_headers=False,
            ws_max_size=1 << 20,
            ws_ping_interval=20.0,
            ws_per_message_deflate=False,  # it would cost more of the processor than all the rest
            timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
            timeout_keep_alive=30,
            backlog=BACKLOG,
        )
        super().__init__(config)
        self._app = app
        self._seconds = settings.shutdown_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """uvicorn would raise the signal again when it has ended, and end the process before the backend is closed."""
        logs.event("ending", signal=signal.Signals(sig).name)
        self.force_exit = self.should_exit
        self.should_exit = True

    def stop(self) -> None:
        """Ends it as a signal does."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Live connections would never end by themselves: when nobody is accepted any more, they are told."""
        for server in self.servers:
            server.close()
        # What was acknowledged may have results that are not with the subscribers' log yet.
        serving = self._app.state.serving
        await serving.work(serving.backend.settle)
        await subscribers_of(self._app).close(self._seconds)
        await super().shutdown(sockets)

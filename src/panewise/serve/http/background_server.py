"""A server in a background thread, for demonstrations and programs.

`ServerBeside(settings, backend)` listens when the constructor returns; `close` ends the server as a signal does, and
closes the backend. If the port of the settings is taken, the server listens on a free one.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from panewise.errors import PanewiseError
from panewise.serve.http.server import Server, address_of, listen
from panewise.serve.http.service.backend import Backend
from panewise.serve.http.service.settings import Settings


class ServerBeside:
    """See the module. `address` is the server's URL."""

    def __init__(self, settings: Settings, backend: Backend) -> None:
        settings.check()
        self._backend = backend
        try:
            self._socket = listen(settings)
        except PanewiseError:
            self._socket = listen(replace(settings, port=0))
        self.address = address_of(settings, self._socket)
        self._server = Server(settings, backend)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="panewise server")
        # A daemon, so that a program may end without `close`.
        self._thread.daemon = True
        self._thread.start()

    def close(self) -> None:
        """Ends the server and closes the backend; returns when both are done."""
        self._server.stop()
        self._thread.join()
        self._socket.close()
        self._backend.close()

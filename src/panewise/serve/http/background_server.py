"""A server in a thread of its own, beside whatever else the process does: for demonstrations and programs.

`ServerBeside(settings, backend)` listens when it returns; `close` ends the server as a signal would, and the backend
with it. Where the port of the settings is taken, another one is.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from panewise.errors import PanewiseError
from panewise.serve.http.server import Server, address_of, listen
from panewise.serve.http.service.backend import Backend
from panewise.serve.http.service.settings import Settings


class ServerBeside:
    """See the module. `address` is where it can be reached."""

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
        # A program that ends without `close` is not kept alive by it.
        self._thread.daemon = True
        self._thread.start()

    def close(self) -> None:
        """Returns when no request is answered any more and the backend is closed."""
        self._server.stop()
        self._thread.join()
        self._socket.close()
        self._backend.close()

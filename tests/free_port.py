"""A port of loopback for a server that has to have the same one again after it was down."""

from __future__ import annotations

import random
import socket

# Below those that systems give to whoever asks for any: a client elsewhere could get the port while the server is down.
_OWN = range(20_000, 32_000)


def free_port() -> int:
    while True:
        port = random.SystemRandom().choice(_OWN)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port

"""Warnings at the start of a server: which of its files other users of this machine may use.

Files that a server creates are private to its user. An existing data folder or token file may be open to everybody;
that may be intended, so the server warns and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from panewise.serve.http.service.settings import Settings

OTHERS_READ_OR_WRITE = 0o006
OTHERS = 0o007


def remarks(settings: Settings) -> Iterator[str]:
    """Yields one sentence for each problem; skips files that do not exist."""
    for path, bits, what, mode in (
        (settings.token_file, OTHERS_READ_OR_WRITE, "the token file", "600"),
        (settings.path, OTHERS, "the data folder", "700"),
    ):
        if path is None:
            continue
        try:
            opened = path.stat().st_mode & bits
        except OSError:
            continue
        if opened:
            yield f"{what} '{path}' is open to all users of this machine; chmod {mode} makes it private"

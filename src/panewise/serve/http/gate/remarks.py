"""What is worth saying when a server starts: which of its own files other users of this machine may use.

What a server makes is its user's alone. A data folder or a token file that was there before may be open to everybody;
that may be meant, and is said and not changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from panewise.serve.http.service.settings import Settings

OTHERS_READ_OR_WRITE = 0o006
OTHERS = 0o007


def remarks(settings: Settings) -> Iterator[str]:
    """A sentence each. Files that are gone meanwhile are passed over."""
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
            yield f"{what} '{path}' is open to all users of this machine; chmod {mode} makes it yours alone"

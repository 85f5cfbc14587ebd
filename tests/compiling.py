"""Loops compiled once in a fresh clone, although several processes run tests.

Numba caches what it has compiled on disk, but processes that begin together all need the same loops at the same time
and would each compile them. Here they take turns, loop by loop: who comes second finds the loop in the cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

_held: set[str] = set()


@contextlib.contextmanager
def _turn(folder: Path, loop: Dispatcher) -> Iterator[None]:
    """A loop may be compiled while one that it is called by is; never the other way round, so nobody waits for ever."""
    name = hashlib.sha256(f"{loop._cache.cache_path} {loop.py_func.__qualname__}".encode()).hexdigest()
    if loop._cache.cache_path is None or name in _held:  # not cached on disk, or for other types further out
        yield
        return
    _held.add(name)
    try:
        with (folder / name).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            yield
    finally:
        _held.discard(name)


def compile_in_turns(run: str) -> None:
    """For the processes of one run of tests, which has a name that no other has."""
    folder = Path(tempfile.gettempdir()) / f"panewise-compiling-{run}"
    folder.mkdir(exist_ok=True)
    compile_alone = Dispatcher.compile

    def compile_in_turn(self: Dispatcher, signature: Any) -> Any:
        with global_compiler_lock, _turn(folder, self):
            return compile_alone(self, signature)

    Dispatcher.compile = compile_in_turn

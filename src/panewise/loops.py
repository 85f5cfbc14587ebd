"""Compiled loops: Python functions over NumPy arrays, turned into machine code by Numba.

A loop is compiled when it is first called with new argument types and cached on disk beside its source, or in the
user's cache folder where that is read-only. On a Spark executor panewise may be imported from a zip archive that the
driver sent: its loops are cached in the user's cache folder under a digest of the archive, because Numba would take the
archive's path, which is another one in every application, and compile everything anew. Where no folder can be written,
loops are compiled in every process.

What serves until a loop is compiled asks `is_worth_calling`, so that it never serves for ever: how fast a query runs
must not depend on what else has run in its process.

Of several processes that want the same loop at the same time, as Spark's workers do when they start, one compiles it
and the others wait and load it.

A loop releases Python's global lock while it runs: other threads go on beside it, and only the engine's turns keep two
threads from the same arrays.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from numba import config, njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.misc.appdirs import AppDirs

Loop = TypeVar("Loop", bound=Callable[..., Any])

# The zip archive that this module was imported from; None where it is an ordinary file.
_ARCHIVE: str | None = getattr(__spec__.loader, "archive", None)


def _stamp(path: Path) -> str:
    if _ARCHIVE is not None:  # the digest of the whole archive is in the name of the folder
        return ""
    stat = path.stat()
    return f"_{stat.st_mtime_ns:x}_{stat.st_size:x}"


# Numba compiles a loop again when its own file has changed, but not when that of a loop which it calls has. The loops
# that others call across files stand in these, whose dates are therefore a part of every name in the cache.
_SHARED_LOOPS = "".join(
    _stamp(Path(__file__).parent / name)
    for name in (
        "aggregates/kernels.py",
        "synopses/slice_ring.py",
        "synopses/counting.py",
        "synopses/single_states.py",
        "synopses/windows/per_window.py",
    )
)


@cache
def _archive_cache() -> Path | None:
    """The folder for the compiled loops of this archive, None where it cannot be written."""
    assert _ARCHIVE is not None
    digest = hashlib.sha256(Path(_ARCHIVE).read_bytes()).hexdigest()
    folder = Path(config.CACHE_DIR or AppDirs(appname="numba", appauthor=False).user_cache_dir)
    locator = _ArchiveLocator(folder / f"panewise_{digest[:32]}")
    try:
        locator.ensure_cache_path()
    except OSError:
        return None
    return locator.folder


class _ArchiveLocator(_CacheLocator):  # type: ignore[misc]
    """Tells Numba where the loops of a zip archive are cached: by what is in the archive, not by where it lies."""

    def __init__(self, folder: Path, function: Any = None) -> None:
        self.folder = folder
        self._function = function
        self._py_file = _ARCHIVE  # what Numba's warnings name

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _ArchiveLocator | None:
        folder = _archive_cache()
        return None if folder is None else cls(folder, py_func)

    def get_cache_path(self) -> str:
        return str(self.folder)

    def get_source_stamp(self) -> str:
        return self.folder.name

    def get_disambiguator(self) -> str:
        return f"{self._function.__module__}-{self._function.__code__.co_firstlineno}"


class _ArchiveCacheFiles(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_ArchiveLocator,)


class _ArchiveCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _ArchiveCacheFiles


def _cache_on_disk(loop: Any) -> None:
    try:
        if _ARCHIVE is None:
            loop.enable_caching()
        else:
            loop._cache = _ArchiveCache(loop.py_func)
    except RuntimeError:  # Numba's word for: there is no folder that can be written
        return


# How much has been done without a loop that is not compiled, by the loop.
_DONE_WITHOUT: dict[Any, int] = {}

# Loops that were specialised, by name or by the functions put in: the same each time, so compiled or loaded once.
_SPECIALISED: dict[tuple[Any, Any], Any] = {}


def compiled_loop(function: Loop) -> Loop:
    """The function, compiled and cached."""
    function.__qualname__ += _SHARED_LOOPS
    loop = _uninterrupted(njit(no_cfunc_wrapper=True, error_model="numpy", nogil=True)(function))
    _cache_on_disk(loop)
    return cast(Loop, loop)


def _uninterrupted(loop: Any) -> Any:
    """The loop, which holds Ctrl-C while Numba compiles it or loads it from the disk.

    Numba reads its registries through generators. One that an interrupt ends stays ended, and nothing can be compiled
    in that process any more: every query would fail, in an engine that opens the folder again too.
    """
    compile_alone = loop.compile

    def compile_now(signature: Any) -> Any:
        # Numba's own lock first: one thread would wait for it with the file's, and another one the other way round.
        with global_compiler_lock, _one_process(loop):
            return compile_alone(signature)

    def compile_first(signature: Any) -> Any:
        handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
        if not callable(handler):
            return compile_now(signature)
        arrived: list[Any] = []
        signal.signal(signal.SIGINT, lambda *signalled: arrived.append(signalled))
        try:
            return compile_now(signature)
        finally:
            signal.signal(signal.SIGINT, handler)
            if arrived:
                handler(*arrived[0])

    loop.compile = compile_first
    return loop


# The lock file of each folder of the cache, open for as long as the process runs. One byte of it stands for a loop.
_LOCK_FILES: dict[Path, int] = {}


@contextmanager
def _one_process(loop: Any) -> Iterator[None]:
    """While a loop is compiled, or loaded, other processes that want it wait. Without a cache, they do not."""
    file = getattr(loop._cache, "_cache_file", None)
    if file is None:
        yield
        return
    byte = zlib.crc32(file._index_name.encode())
    held = None
    with suppress(OSError):  # not every file system has locks
        folder = Path(loop._cache.cache_path)
        if folder not in _LOCK_FILES:
            loop._cache._impl.locator.ensure_cache_path()
            _LOCK_FILES[folder] = os.open(folder / "compiling.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(_LOCK_FILES[folder], fcntl.LOCK_EX, 1, byte)
        held = _LOCK_FILES[folder]
    try:
        yield
    finally:
        if held is not None:
            fcntl.lockf(held, fcntl.LOCK_UN, 1, byte)


def is_compiled(loop: Any) -> bool:
    """Whether the loop has been compiled, or loaded from the cache, for some argument types in this process."""
    return bool(loop.signatures)


def is_worth_calling(loop: Any, work: int, at_once: int, in_all: int) -> bool:
    """Whether to call a loop for work that can also be done without it, more slowly, but without compiling it first.

    A loop that is compiled, or that the disk has, is called. Another one is called, and so compiled, for work of more
    than `at_once`; and where more than `in_all` has been done without it since the process began: who does without a
    loop often enough pays for it, however small each piece is. Where the answer is no, the work counts as done without.
    """
    if is_compiled(loop):
        return True
    done = _DONE_WITHOUT.get(loop, 0)
    if work > at_once or done + work > in_all or (not done and _is_on_disk(loop)):
        return True
    _DONE_WITHOUT[loop] = done + max(work, 1)
    return False


def _is_on_disk(loop: Any) -> bool:
    """Whether an earlier process has left the loop's machine code in the cache, for some argument types."""
    file = getattr(loop._cache, "_cache_file", None)
    return file is not None and bool(file._load_index())


def specialised(loop: Any, name: str | None, **replaced: Any) -> Any:
    """The loop compiled anew with other functions in place of module-level ones: a user's combine, say.

    With a name, which must then always mean the same functions, it is cached on disk under that name.
    """
    key = (loop, tuple(replaced.items()) if name is None else name)
    if key in _SPECIALISED:
        return _SPECIALISED[key]
    source = loop.py_func
    names = {**source.__globals__, **replaced}
    copy = FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    copy.__qualname__ = source.__qualname__ if name is None else f"{source.__qualname__}_{name}"
    copy.__module__ = source.__module__
    result = _SPECIALISED[key] = _uninterrupted(njit(copy, nogil=True))
    if name is not None:
        _cache_on_disk(result)
    return result

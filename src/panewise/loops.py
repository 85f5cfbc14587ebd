"""Compiled loops: Python functions over NumPy arrays, turned into machine code by Numba.

A loop is compiled when it is first called with new argument types. The machine code is cached on disk beside the
source, or in the user's cache folder if the source folder is read-only. If no folder can be written, every process
compiles.

On a Spark executor panewise may be imported from a zip archive that the driver sent. Numba would cache by the archive's
path, which differs in every application, and so compile everything again. Such loops are therefore cached in the user's
cache folder under a digest of the archive.

Code that can work without a loop, more slowly, calls `is_worth_calling` to decide when to compile it. So the speed of a
query does not depend on what else has run in its process.

If several processes want the same loop at the same time, as Spark's workers do when they start, one compiles it and the
others wait and load it.

A loop releases Python's global lock while it runs, so other threads run concurrently. Only the engine's turns keep two
threads from using the same arrays.
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

# The zip archive that this module was imported from, or None.
_ARCHIVE: str | None = getattr(__spec__.loader, "archive", None)


def _stamp(path: Path) -> str:
    if _ARCHIVE is not None:  # the cache folder's name already has the digest of the whole archive
        return ""
    stat = path.stat()
    return f"_{stat.st_mtime_ns:x}_{stat.st_size:x}"


# Numba compiles a loop again when the loop's own file has changed, but not when the file of a loop that it calls has.
# These files have the loops that are called from other files, so their dates are part of every name in the cache.
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
    """The folder for the compiled loops of this archive, or None if it cannot be written."""
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
    """Tells Numba where to cache the loops of a zip archive: by the archive's content, not by its path."""

    def __init__(self, folder: Path, function: Any = None) -> None:
        self.folder = folder
        self._function = function
        self._py_file = _ARCHIVE  # named in Numba's warnings

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
    except RuntimeError:  # Numba found no folder that can be written
        return


# Work done so far without each loop that is not compiled yet.
_DONE_WITHOUT: dict[Any, int] = {}

# Specialised loops, by loop and by name or replaced functions, so that each is compiled or loaded once.
_SPECIALISED: dict[tuple[Any, Any], Any] = {}


def compiled_loop(function: Loop) -> Loop:
    """The function, compiled and cached."""
    function.__qualname__ += _SHARED_LOOPS
    loop = _uninterrupted(njit(no_cfunc_wrapper=True, error_model="numpy", nogil=True)(function))
    _cache_on_disk(loop)
    return cast(Loop, loop)


def _uninterrupted(loop: Any) -> Any:
    """The loop, changed so that Ctrl-C is delayed while Numba compiles it or loads it from disk.

    Numba reads its registries through generators. A generator ended by an interrupt stays ended, and then nothing can
    be compiled in that process any more: every query would fail, even in an engine that opens the folder again.
    """
    compile_alone = loop.compile

    def compile_now(signature: Any) -> Any:
        # Numba's own lock is taken first. If threads took the two locks in different orders, they would deadlock.
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


# The open lock file of each cache folder. It stays open until the process ends; one byte of it stands for a loop.
_LOCK_FILES: dict[Path, int] = {}


@contextmanager
def _one_process(loop: Any) -> Iterator[None]:
    """Makes other processes that want the loop wait while it is compiled or loaded. Without a cache nobody waits."""
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
    """Whether the loop was compiled, or loaded from the cache, for some argument types in this process."""
    return bool(loop.signatures)


def is_worth_calling(loop: Any, work: int, at_once: int, in_all: int) -> bool:
    """Whether to call a loop for `work` that can also be done without it, more slowly, and without compiling it.

    True if the loop is compiled or cached on disk. Otherwise true, so that it is compiled, if `work` exceeds `at_once`,
    or if the work done without the loop in this process would exceed `in_all`. If the result is False, `work` is added
    to the work done without the loop.
    """
    if is_compiled(loop):
        return True
    done = _DONE_WITHOUT.get(loop, 0)
    if work > at_once or done + work > in_all or (not done and _is_on_disk(loop)):
        return True
    _DONE_WITHOUT[loop] = done + max(work, 1)
    return False


def _is_on_disk(loop: Any) -> bool:
    """Whether the cache on disk has the loop's machine code for some argument types."""
    file = getattr(loop._cache, "_cache_file", None)
    return file is not None and bool(file._load_index())


def specialised(loop: Any, name: str | None, **replaced: Any) -> Any:
    """A copy of the loop in which other functions replace module-level ones, for example a user's combine.

    With a name, it is cached on disk under that name, which must then always mean the same functions.
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

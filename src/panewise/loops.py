"""Compiled loops: Python functions over NumPy arrays, turned into machine code by Numba.

A loop is compiled when it is first called with new argument types and cached on disk beside its source, or in the
user's cache folder where that is read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from numba import njit

Loop = TypeVar("Loop", bound=Callable[..., Any])


def _stamp(path: Path) -> str:
    stat = path.stat()
    return f"_{stat.st_mtime_ns:x}_{stat.st_size:x}"


# Numba compiles a loop again when its own file has changed, but not when that of a loop which it calls has. The loops
# that others call across files stand in one file, whose date is therefore a part of every name in the cache.
_SHARED_LOOPS = _stamp(Path(__file__).parent / "aggregates" / "kernels.py")

# Loops that were specialised, by name or by the functions put in: the same each time, so compiled or loaded once.
_SPECIALISED: dict[tuple[Any, Any], Any] = {}


def compiled_loop(function: Loop) -> Loop:
    """The function, compiled and cached."""
    function.__qualname__ += _SHARED_LOOPS
    return cast(Loop, njit(cache=True, no_cfunc_wrapper=True, error_model="numpy")(function))


def is_compiled(loop: Any) -> bool:
    """Whether the loop has been compiled, or loaded from the cache, for some argument types in this process."""
    return bool(loop.signatures)


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
    result = _SPECIALISED[key] = njit(cache=name is not None)(copy)
    return result

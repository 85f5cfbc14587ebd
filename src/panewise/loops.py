"""Compiled loops: Python functions over NumPy arrays, turned into machine code by Numba.

A loop is compiled when it is first called with new argument types and cached on disk beside its source, or in the
user's cache folder where that is read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from numba import njit

Loop = TypeVar("Loop", bound=Callable[..., Any])


# Loops that were specialised under a name: the same functions each time, so compiled or loaded once.
_NAMED: dict[tuple[Any, str | None], Any] = {}


def compiled_loop(function: Loop) -> Loop:
    """The function, compiled and cached."""
    return cast(Loop, njit(cache=True)(function))


def specialised(loop: Any, name: str | None, **replaced: Any) -> Any:
    """The loop compiled anew with other functions in place of module-level ones: a user's combine, say.

    With a name, which must then always mean the same functions, it is cached on disk under that name.
    """
    if (loop, name) in _NAMED:
        return _NAMED[loop, name]
    source = loop.py_func
    names = {**source.__globals__, **replaced}
    copy = FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    copy.__qualname__ = source.__qualname__ if name is None else f"{source.__qualname__}_{name}"
    copy.__module__ = source.__module__
    result = njit(cache=name is not None)(copy)
    if name is not None:
        _NAMED[loop, name] = result
    return result

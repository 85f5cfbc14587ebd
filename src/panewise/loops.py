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


def compiled_loop(function: Loop) -> Loop:
    """The function, compiled and cached."""
    return cast(Loop, njit(cache=True)(function))


def specialised(loop: Any, **replaced: Any) -> Any:
    """The loop compiled anew with other functions in place of module-level ones: a user's combine, say."""
    source = loop.py_func
    names = {**source.__globals__, **replaced}
    return njit(FunctionType(source.__code__, names, source.__name__, source.__defaults__))

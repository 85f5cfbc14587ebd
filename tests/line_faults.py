"""Python code that dies at a line: at its first one, at its second, and so on, until a step comes to its end."""

from __future__ import annotations

import contextlib
import gc
import linecache
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


@contextlib.contextmanager
def nothing_collected() -> Iterator[None]:
    """No cycle is collected meanwhile: what is counted or dies here is the step, not the end of an older object.

    An exception in a finalizer is only printed, and Python traces nothing more after a trace function has raised one.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def killed_at(line_count: int, place: str, step: Callable[[], object], by_signal: bool = False) -> bool:
    """Runs a step up to the given number of lines of the files below `place`; whether it died there.

    `by_signal`: not at the line of a `with`. Python handles no signal between the body of a `with` and its end.
    """
    left = line_count
    killed = False

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left, killed
        file = frame.f_code.co_filename
        if not file.startswith(place):
            return None
        if event == "line" and not (by_signal and linecache.getline(file, frame.f_lineno).lstrip().startswith("with ")):
            left -= 1
            if left < 0:
                killed = True
                raise Killed
        return trace

    previous = sys.gettrace()
    with nothing_collected():
        sys.settrace(trace)
        try:
            step()
        except Killed:
            return True
        finally:
            sys.settrace(previous)
    assert not killed, "something has caught the kill"
    return False

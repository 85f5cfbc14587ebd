"""Reuses the memory of answers once the caller no longer refers to the previous ones.

Getting new pages from the operating system costs more than answers that take a nanosecond each. A buffer is reused only
if nobody else refers to it; arrays that are views of it count as references. At most LARGEST bytes are kept.
"""

from __future__ import annotations

import sys

import numpy as np

from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints

LARGEST = 4 << 20  # bytes
OWN_REFERENCES = 2  # the attribute and the argument of getrefcount


class AnswerBuffer:
    """Uninitialised arrays (fields x slots) for the answers of one kind of state."""

    def __init__(self, kind: StateKind) -> None:
        self._kind = kind
        self._ints: Ints = np.empty(0, np.int64)
        self._floats: Floats = np.empty(0)

    def arrays(self, slots: int) -> tuple[Ints, Floats]:
        int_size, float_size = self._kind.int_fields * slots, self._kind.float_fields * slots
        if int_size > len(self._ints) or sys.getrefcount(self._ints) > OWN_REFERENCES:
            ints = np.empty(int_size, np.int64)
            if ints.nbytes <= LARGEST:
                self._ints = ints
        else:
            ints = self._ints
        if float_size > len(self._floats) or sys.getrefcount(self._floats) > OWN_REFERENCES:
            floats = np.empty(float_size)
            if floats.nbytes <= LARGEST:
                self._floats = floats
        else:
            floats = self._floats
        return (
            ints[:int_size].reshape(self._kind.int_fields, slots),
            floats[:float_size].reshape(self._kind.float_fields, slots),
        )

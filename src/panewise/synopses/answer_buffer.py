"""Where answers are written: the same memory again, once the caller has let the answers before go.

Pages that the operating system has to hand out cost more than answers that take a nanosecond each. A buffer is used
again only while nobody else refers to it, which arrays that are views of it do; up to LARGEST bytes are kept.
"""

from __future__ import annotations

import sys

import numpy as np

from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints

LARGEST = 4 << 20  # bytes
OWN_REFERENCES = 2  # the attribute, and the argument of getrefcount


class AnswerBuffer:
    """Arrays fields x slots for the answers of one kind of state, with anything in them."""

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

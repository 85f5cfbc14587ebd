"""Names of array types and the limits of int64, for all packages."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Small: TypeAlias = NDArray[np.int32]  # for numbers that fit 32 bits
Floats: TypeAlias = NDArray[np.float64]

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

"""How the results of a negation are kept, by the measured share of those that end prematurely.

`by expiration`: a result is told with the death of its left row; who keeps it files it by expiration, and an end before
that death costs extra. `by key`: nothing is told, every result ends, and is found by its number. The first wins where
ends are rare, the second where most results end anyway (Golab 2006, section 3.5.2).

The share of premature ends is measured while results leave: every SAMPLE departures count half, those before them the
other half. It passes TO_KEY before results are kept by key, and falls below TO_EXPIRATION before they are kept by
expiration again:

    share   0 ------------- TO_EXPIRATION ------------- TO_KEY ------------- 1
            by expiration         |     as it was          |        by key

Measured with results kept as the engine keeps them, in arrays by number with a calendar queue for the deaths that are
known, negation included: by expiration costs about an eighth less where nothing ends prematurely, both the same at
shares between 0.5 and 0.8, by key up to a fifth less where everything does. Where an end has to be looked for in all
partitions, as in the thesis, the lines cross much earlier. Measuring costs O(1) a step.

A change concerns the results that are shown from then on; those that were told a death die, those that were not end.
"""

from __future__ import annotations

from typing import Any

BY_EXPIRATION, BY_KEY = "by expiration", "by key"
SAMPLE = 1024
TO_EXPIRATION, TO_KEY = 0.5, 0.7


class MeasuredStorage:
    """The storage in use, by expiration at first; with `fixed` it stays that one, whatever is measured.

    >>> storage = MeasuredStorage()
    >>> storage.measure(premature=900, natural=200)
    >>> storage.in_use, round(storage.share, 2)
    ('by key', 0.82)
    """

    def __init__(self, fixed: str | None = None) -> None:
        assert fixed in (None, BY_EXPIRATION, BY_KEY), fixed
        self._fixed = fixed
        self.in_use = fixed or BY_EXPIRATION
        self.share = 0.0  # of the results that left lately, those that ended prematurely
        self._premature, self._natural = 0, 0  # as they were when the share was measured last

    def measure(self, premature: int, natural: int) -> None:
        """Takes how many results have left either way since the beginning."""
        ended, died = premature - self._premature, natural - self._natural
        if ended + died < SAMPLE:
            return
        first = self._premature + self._natural == 0
        latest = ended / (ended + died)
        self.share = latest if first else (self.share + latest) / 2
        self._premature, self._natural = premature, natural
        if self._fixed is None and self.share > TO_KEY:
            self.in_use = BY_KEY
        elif self._fixed is None and self.share < TO_EXPIRATION:
            self.in_use = BY_EXPIRATION

    def snapshot(self) -> dict[str, Any]:
        return {
            "in_use": self.in_use,
            "share": self.share,
            "premature": self._premature,
            "natural": self._natural,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.in_use, self.share = snapshot["in_use"], snapshot["share"]
        self._premature, self._natural = snapshot["premature"], snapshot["natural"]

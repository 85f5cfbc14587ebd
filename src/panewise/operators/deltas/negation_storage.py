"""Chooses how the results of a negation are kept, by the measured share of results that end prematurely.

`by expiration`: a result has the death of its left row, by which it is filed; an end before this death costs extra.
`by key`: a result has no known death, always ends, and is found by its number. The first is better if premature ends
are rare, the second if most results end prematurely (Golab 2006, section 3.5.2).

The share is a moving average: each sample of SAMPLE results that left counts half, all earlier samples the other half.
Results are kept by key once it exceeds TO_KEY, and by expiration again once it is below TO_EXPIRATION:

    share   0 ------------- TO_EXPIRATION ------------- TO_KEY ------------- 1
            by expiration         |     as it was          |        by key

Measured with the engine's storage (arrays by number, a calendar queue for known deaths), negation included: if nothing
ends prematurely, by expiration costs about an eighth less; at shares between 0.5 and 0.8 both cost the same; if
everything ends prematurely, by key costs up to a fifth less. If an end must be searched for in all partitions, as in
the thesis, the lines cross much earlier. Measuring costs O(1) a step.

A change of storage concerns only results that are shown later. Earlier results still die or end as they were told.
"""

from __future__ import annotations

from typing import Any

BY_EXPIRATION, BY_KEY = "by expiration", "by key"
SAMPLE = 1024
TO_EXPIRATION, TO_KEY = 0.5, 0.7


class MeasuredStorage:
    """The storage in use: `fixed` if it is given, otherwise by expiration at first and then as measured.

    >>> storage = MeasuredStorage()
    >>> storage.measure(premature=900, natural=200)
    >>> storage.in_use, round(storage.share, 2)
    ('by key', 0.82)
    """

    def __init__(self, fixed: str | None = None) -> None:
        assert fixed in (None, BY_EXPIRATION, BY_KEY), fixed
        self._fixed = fixed
        self.in_use = fixed or BY_EXPIRATION
        self.share = 0.0  # the share of premature ends
        self._premature, self._natural = 0, 0  # the totals when the share was last updated

    def measure(self, premature: int, natural: int) -> None:
        """Takes the total numbers of premature and natural ends since the beginning."""
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

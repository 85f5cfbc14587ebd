"""Going forward over ports in steps: each takes the rows up to an instant, and what comes of them leaves at once.

How far a step goes is the affair of `bounded_steps.py`. Operators, plans and cores that several queries share go so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from panewise.arrays import INT64_MIN
from panewise.engine.consumers.bounded_steps import BoundedSteps, InReport
from panewise.engine.consumers.ports import Port
from panewise.operators.row_batch import Rows

Step = Callable[[list[Rows], int, int], int]


class Stepping:
    """Ports, and the instant up to which all has been taken from them."""

    def __init__(self, ports: Sequence[Port], step: Step) -> None:
        """`step`: takes the rows of each port from one instant to another one; how many results it made."""
        self.ports = ports
        self.watermark = INT64_MIN
        self._step = step
        self._bounds = BoundedSteps()

    @property
    def reached(self) -> int:
        """How far all ports have come."""
        return min(port.watermark for port in self.ports)

    def go_to(self, upto: int, goes_on: Callable[[], bool], in_report: Callable[[], Iterable[InReport]]) -> None:
        """In as many steps as it takes, as long as it goes on; `in_report`: the reports of the queries that are fed."""
        while upto > self.watermark and goes_on():
            self.leap(self._bounds.next(self.ports, self.watermark, upto, in_report()))

    def leap(self, until: int) -> None:
        """In one step."""
        since, self.watermark = self.watermark, until
        rows = [port.released(until) for port in self.ports]
        made = self._step(rows, since, until)
        self._bounds.made(sum(map(len, rows)), made)

    def go_on_from(self, watermark: int) -> None:
        """All up to here was taken by another one."""
        self.watermark = watermark

    def forget(self) -> None:
        """Nothing waits any more."""
        for port in self.ports:
            port.forget()

    @property
    def bytes_held(self) -> int:
        return sum(port.bytes_held for port in self.ports)

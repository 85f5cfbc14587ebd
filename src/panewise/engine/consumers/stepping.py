"""Steps over ports: each takes the rows up to an instant, and its results leave before the next step.

`bounded_steps.py` decides how far a step goes. Operators, plans and shared cores all advance in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from panewise.arrays import INT64_MIN
from panewise.engine.consumers.bounded_steps import BoundedSteps, InReport
from panewise.engine.consumers.ports import Port
from panewise.operators.row_batch import Rows

Step = Callable[[list[Rows], int, int], int]


class Stepping:
    """Ports, and the watermark up to which their rows were taken."""

    def __init__(self, ports: Sequence[Port], step: Step) -> None:
        """`step`: takes the rows of each port between two instants, and returns the number of results."""
        self.ports = ports
        self.watermark = INT64_MIN
        self._step = step
        self._bounds = BoundedSteps()

    @property
    def reached(self) -> int:
        """The least watermark of the ports."""
        return min(port.watermark for port in self.ports)

    def go_to(self, upto: int, goes_on: Callable[[], bool], in_report: Callable[[], Iterable[InReport]]) -> None:
        """Takes steps to an instant while `goes_on`. `in_report`: the reports of the queries that are fed."""
        while upto > self.watermark and goes_on():
            self.leap(self._bounds.next(self.ports, self.watermark, upto, in_report()))

    def leap(self, until: int) -> None:
        """Goes to an instant in one step."""
        since, self.watermark = self.watermark, until
        rows = [port.released(until) for port in self.ports]
        made = self._step(rows, since, until)
        self._bounds.made(sum(map(len, rows)), made)

    def go_on_from(self, watermark: int) -> None:
        """Restores the watermark: all rows before it were taken."""
        self.watermark = watermark

    def forget(self) -> None:
        """Drops the waiting rows."""
        for port in self.ports:
            port.forget()

    @property
    def bytes_held(self) -> int:
        return sum(port.bytes_held for port in self.ports)

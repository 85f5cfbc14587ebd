"""One processor, a moving window and readers, in simulated time: the experiments of Golab 2006, section 7.5.

The schedulers are the real ones (`panewise.schedule`); time is added up and not spent. The processor is never idle:
groups of periodic queries are executed again and again, one after another, and a group whose read is aborted has its
next turn when the round comes by. One-time queries have the higher priority, and begin again when they are aborted.

    now   ──r──r──r──m──r──r──c──r──r──      r a step of the chosen read, m a move, c the commit after a last step
                     ^ the move was due during the step before: a step is atomic

What is measured (section 7.5.1), of reads that committed:

    staleness          from when the rows of the last move that an answer reflects were complete, to the answer
    response time      from the request of a one-time query to its answer
    inter-execution    the trial's time by the answers of a group, so that what the end of a trial cuts off counts too
    throughput         committed reads per second
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from panewise.schedule.isolation.histories import History
from panewise.schedule.isolation.recorded_scheduler import RecordedScheduler
from panewise.schedule.isolation.schedulers import Scheduler
from panewise.schedule.isolation.transactions import Priority, WindowRead


@dataclass(frozen=True)
class ScanCost:
    """Seconds to scan a sub-window: a part for each, a part for each packet in it."""

    per_sub_window_s: float
    per_packet_s: float

    def of(self, packets: int) -> float:
        return self.per_sub_window_s + self.per_packet_s * packets


@dataclass(frozen=True)
class ReaderWorkload:
    """What all schedulers of a trial are given alike."""

    sub_windows: int
    sub_window_s: float
    group_lengths: Sequence[int]
    """The longest window of each group of periodic queries, in sub-windows."""
    packets: Sequence[int]
    """Of each copy of a sub-window, from move 0 on."""
    one_time: Sequence[tuple[float, int]] = ()
    """When one-time queries are asked, and the lengths of their windows."""


@dataclass(frozen=True)
class SimulatedCosts:
    """Of the simulated machine. They are chosen, see `ch7_workload`."""

    periodic: ScanCost
    one_time: ScanCost
    move_per_packet_s: float
    decision_s: float
    """What a scheduler other than Serial spends on each step and each move."""


@dataclass
class MeasuredTrial:
    seconds: float = 0.0
    committed: int = 0
    aborted: int = 0
    staleness_s: dict[Priority, list[float]] = field(default_factory=lambda: {each: [] for each in Priority})
    response_s: list[float] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    """Of each group."""
    rescans: int = 0
    history: History | None = None

    @property
    def aborted_share(self) -> float:
        return self.aborted / max(1, self.committed + self.aborted)

    @property
    def throughput(self) -> float:
        return self.committed / self.seconds

    @property
    def inter_execution_s(self) -> float:
        return mean([self.seconds / max(1, count) for count in self.answers])

    def staleness(self, priority: Priority) -> float:
        return mean(self.staleness_s[priority])


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


class Simulation:
    """One trial of one scheduler, for as long as the window is."""

    def __init__(
        self, scheduler: Scheduler, workload: ReaderWorkload, costs: SimulatedCosts, is_serial: bool, record: bool
    ) -> None:
        self._requests = RecordedScheduler(scheduler) if record else scheduler
        self._scheduler = scheduler
        self._workload = workload
        self._costs = costs
        self._decision_s = 0.0 if is_serial else costs.decision_s
        self._now = 0.0
        self._first_move = scheduler.last_move + 1
        self._asked: dict[str, float] = {}
        self._periodic: str | None = None
        self._group = -1
        self._started = 0
        self._one_time_started = 0
        self._lengths: dict[str, tuple[int, Priority]] = {}
        self.measured = MeasuredTrial(answers=[0] * len(workload.group_lengths))

    def run(self) -> MeasuredTrial:
        end = self._workload.sub_windows * self._workload.sub_window_s
        while self._now < end:
            self._move_what_is_due()
            self._take_one_time_queries()
            if self._periodic is None:
                self._group = (self._group + 1) % len(self._workload.group_lengths)
                self._periodic = self._begin("P", self._workload.group_lengths[self._group], Priority.PERIODIC)
            name = self._requests.choose()
            assert name is not None, "a group of periodic queries is always under way"
            self._step(name)
        self.measured.seconds = self._now
        if isinstance(self._requests, RecordedScheduler):
            self.measured.history = self._requests.history()
        return self.measured

    def _due(self, move: int) -> float:
        """When the rows of a move are complete; move n is the first that comes while we look."""
        return (move - self._first_move + 1) * self._workload.sub_window_s

    def _move_what_is_due(self) -> None:
        while self._due(self._scheduler.last_move + 1) <= self._now:
            moved = self._requests.move()
            if moved is None:
                return
            packets = self._workload.packets[moved.move.number]
            self._now += packets * self._costs.move_per_packet_s + self._decision_s
            for name in moved.aborted:
                self._aborted(name)

    def _aborted(self, name: str) -> None:
        self.measured.aborted += 1
        length, priority = self._lengths.pop(name)
        asked = self._asked.pop(name)
        if priority is Priority.PERIODIC:
            self._periodic = None
        else:
            self._begin("O", length, priority, asked)

    def _take_one_time_queries(self) -> None:
        waiting = self._workload.one_time
        while self._one_time_started < len(waiting) and waiting[self._one_time_started][0] <= self._now:
            asked, length = waiting[self._one_time_started]
            self._begin("O", length, Priority.ONE_TIME, asked)
            self._one_time_started += 1

    def _begin(self, kind: str, length: int, priority: Priority, asked: float | None = None) -> str:
        self._started += 1
        name = f"{kind}{self._started}"
        self._requests.begin(WindowRead(name, length, priority))
        self._asked[name] = self._now if asked is None else asked
        self._lengths[name] = (length, priority)
        return name

    def _step(self, name: str) -> None:
        step = self._requests.next_step(name)
        if step is not None:
            _, priority = self._lengths[name]
            cost = self._costs.one_time if priority is Priority.ONE_TIME else self._costs.periodic
            self._now += cost.of(self._workload.packets[step.copy]) + self._decision_s
            self.measured.rescans += step.undo
        if self._scheduler.is_complete(name):
            self._answered(name, self._requests.commit(name))

    def _answered(self, name: str, reflected: int) -> None:
        _, priority = self._lengths.pop(name)
        asked = self._asked.pop(name)
        self.measured.committed += 1
        self.measured.staleness_s[priority].append(self._now - self._due(reflected))
        if priority is Priority.ONE_TIME:
            self.measured.response_s.append(self._now - asked)
            return
        self._periodic = None
        self.measured.answers[self._group] += 1

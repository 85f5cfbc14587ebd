"""Which reports are computed first while a stream is behind: the techniques of `panewise.schedule` in the engine.

A stream is behind while its queue is more than half full. Rows are folded into all families of queries then as always,
each once; but a family (the queries of one tree) whose reports have come due is not answered in the same breath. It
waits, with the others of its stream, until the technique chooses it; between two choices the engine looks at the clock,
and goes back to folding rows when the reports of this turn have had their share of it.

    rows       [ fold ][ fold ]            [ fold ]        [ fold ]          all families, every row once
    reports             a (slide 1 s) b    ^ budget   a    ^ budget   a, c   by deadline; c (slide 60 s) has waited

What is postponed is answered in one pass later, every report for its own instant: schedules decide when, never what
(DESIGN: the exact reading of slides). That is so because slices stay open until their family is answered, and rows that
come later lie after them: the stream has judged which rows are late before any family sees them.

A *task* is a family, its period the shortest slide in it. A report is to be out before the next one of its family comes
due; that is its deadline. Time is counted in updates, of which one is the shortest slide over the stream. Families of
one stream are a *group*: they share the pass over its rows. What runs together is answered without a look at the clock.

    earliest-deadline   one family after the other
    conservative        all whose deadlines fall into the same update
    late                all whose deadline has passed; where there are none, as conservative
    late-pending        the same, and those whose deadline will have passed with the next update

Invariants:

- What is postponed is answered, at the latest: with the turn that leaves no rows waiting; before somebody reads it,
  runs a statement or takes a snapshot; when its family trails the stream by so many of its shortest slides, or
  holds so many open slices, that it cannot wait (`PostponedReports.can_wait`). So memory is bounded, and no family
  starves.
- Families that others read row by row, and those that code of users folds, never wait.

Cost: O(families) a turn and O(families squared) where each is chosen by itself; nothing while the stream keeps up.
Golab 2006, sections 8.4.2 (algorithm 9), 8.4.3 (10) and 8.4.5 (11); the same by simulation:
`papers/golab2006/timetable.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from panewise.engine.channels.readers import Postponed
from panewise.engine.ingest.stream import Stream
from panewise.errors import PlanError
from panewise.schedule.periodic.conservative import same_deadline
from panewise.schedule.periodic.earliest_deadline import earliest_deadline
from panewise.schedule.periodic.late_sharing import late_and_pending_together, late_together
from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task
from panewise.schedule.periodic.sharing_techniques import Choice

AT_ONCE = "at once"
SCHEDULES: dict[str, Choice | None] = {
    "late-pending": late_and_pending_together,
    "late": late_together,
    "conservative": same_deadline,
    "earliest-deadline": earliest_deadline,
    AT_ONCE: None,
}
DEFAULT = "earliest-deadline"
CHANGE_SLIDES = ("aggressive", "hybrid")
BEHIND = 0.5  # the share of its queue from which on a stream is behind; load shedding begins there too
SHARE = 0.5  # of the time that the rows of a turn took, for reports
LEAST_S = 0.002  # but not less than this


class ReportSchedule:
    """How one engine answers families of queries while it is behind.

    `begins_behind` and `stays_behind` say of a stream whether reports may wait in a turn, and whether they still may at
    its end; `budget` how many seconds reports get after so many seconds for rows. Tests set them.
    """

    def __init__(self, name: str = DEFAULT) -> None:
        if not isinstance(name, str):
            raise PlanError(f"the name of a schedule is a text, not a {type(name).__name__}")
        if name in CHANGE_SLIDES:
            raise PlanError(
                f"a schedule cannot be '{name}': it would change when queries report",
                hint="create those that may report more often WITH (refresh = 'at_most')",
            )
        if name not in SCHEDULES:
            names = list(SCHEDULES)
            raise PlanError(f"there is no schedule '{name}'", hint=f"it is {', '.join(names[:-1])} or {names[-1]}")
        self.name = name
        self.choose = SCHEDULES[name]
        self.begins_behind: Callable[[Stream], bool] = is_pressed
        self.stays_behind: Callable[[Stream], bool] = has_backlog
        self.budget: Callable[[float], float] = share_of

    def postpones(self, stream: Stream) -> bool:
        """Whether reports that can wait are postponed in the turn that begins."""
        return self.choose is not None and self.begins_behind(stream)

    def answer(self, stream: Stream, since: float) -> None:
        """Rows have been folded since then: answers families in order until the time is used up."""
        if self.choose is not None and stream.postponed and self.stays_behind(stream):
            self._answer_in_order(stream, since, self.choose)
        else:
            stream.catch_up()

    def _answer_in_order(self, stream: Stream, since: float, choose: Choice) -> None:
        families, waiting = waiting_families(stream)
        begun = stream.clock()
        end = begun + self.budget(begun - since)
        first = True
        while chosen := choose(waiting):
            if not first and stream.clock() + sum(task.scan for task in chosen) > end:
                break
            first = False
            for task in chosen:
                del waiting[task]
                families[task].catch_up()


def is_pressed(stream: Stream) -> bool:
    """Whether more rows wait than half of the stream's queue; a stream without one never is."""
    return stream.queue is not None and stream.queue.rows + stream.waiting_rows > BEHIND * stream.queue.capacity


def has_backlog(stream: Stream) -> bool:
    """Whether rows wait: then there is another turn."""
    return stream.waiting_rows > 0 or (stream.queue is not None and stream.queue.waiting)


def share_of(seconds: float) -> float:
    return max(LEAST_S, SHARE * seconds)


def waiting_families(stream: Stream) -> tuple[dict[Task, Postponed], dict[Task, int]]:
    """The families with reports that have come due and are not answered, as tasks by deadline.

    And how many updates are left until each deadline: less than 0 where it has passed, 0 where it will have with the
    next update. Of equal ones the one that is earlier by less than an update comes first, then the shorter slide.
    """
    due = []
    for family in stream.postponed:
        first = family.first_postponed
        if first is not None:
            report, slide = first
            due.append((report + slide, slide, family))
    due.sort(key=lambda found: found[:2])
    unit = min((slide for _, slide, _ in due), default=1)
    families, until = {}, {}
    for deadline, slide, family in due:
        period = -(-slide // unit)
        query = PeriodicQuery(family.first_name, stream.name, period, scan=family.answer_seconds)
        task = Task(stream.name, period, (query,))
        families[task] = family
        until[task] = (deadline - stream.watermark - 1) // unit
    return families, until

"""Which reports are answered first while a stream is behind, by the techniques of `panewise.schedule`.

A stream is behind while its queue is more than half full. Rows are still folded into all families of queries, once
each. But a family whose reports have come due is not answered at once. It waits, with the others of its stream, until
the technique chooses it. Between two choices the engine looks at the clock, and goes back to folding rows when the
reports of this flush have used up their share of time.

    rows       [ fold ][ fold ]            [ fold ]        [ fold ]          all families, every row once
    reports             a (slide 1 s) b    ^ budget   a    ^ budget   a, c   by deadline; c (slide 60 s) has waited

Postponed reports are answered later in one pass, each for its own instant: a schedule decides when, never what. Slices
stay open until their family is answered. Rows that come later lie after these slices, because the stream has judged
which rows are late before any family sees them.

A *task* is a family; its period is its shortest slide. The deadline of a report is when the next report of its family
comes due. Time is counted in updates; an update is the shortest slide over the stream. Families of one stream are a
*group*: they share the pass over its rows. Families that are chosen together are answered without a look at the clock.

    earliest-deadline   one family after the other
    conservative        all families whose deadlines fall into the same update
    late                all families whose deadline has passed; if there are none, as conservative
    late-pending        as late, with the families whose deadline will have passed at the next update

Invariants:

- Postponed reports are answered at the latest: by the flush that leaves no row pending; before somebody reads them,
  runs a statement or takes a snapshot; when their family trails the stream too far, or has too many open slices, to
  wait (`PostponedReports.can_wait`). So memory is bounded, and no family starves.
- Families whose queries are read by other queries, or that call users' functions, never wait.

Cost: O(families) per flush, O(families squared) if each is chosen by itself; nothing while the stream keeps up.
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
BEHIND = 0.5  # A stream is behind if more than this share of its queue is full; load shedding begins there too.
SHARE = 0.5  # The time for the reports of a flush, as a share of the time that its rows took.
LEAST_S = 0.002  # The least time for the reports of a flush.


class ReportSchedule:
    """The schedule of one engine.

    `begins_behind` and `stays_behind` say whether the reports of a stream may wait when a flush begins, and when its
    rows are folded. `budget` gives the seconds for reports, from the seconds that the rows took. Tests set them.
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
        """Whether reports that can wait are postponed in the flush that begins."""
        return self.choose is not None and self.begins_behind(stream)

    def answer(self, stream: Stream, since: float) -> None:
        """Rows have been folded since that instant of the clock: answers families in order until the time is used
        up."""
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
    """Whether more than half of the stream's queue is full; a stream without a queue is never behind."""
    return stream.queue is not None and stream.queue.rows + stream.waiting_rows > BEHIND * stream.queue.capacity


def has_backlog(stream: Stream) -> bool:
    """Whether rows are pending: then another flush follows."""
    return stream.waiting_rows > 0 or (stream.queue is not None and stream.queue.waiting)


def share_of(seconds: float) -> float:
    return max(LEAST_S, SHARE * seconds)


def waiting_families(stream: Stream) -> tuple[dict[Task, Postponed], dict[Task, int]]:
    """The families with postponed reports, as tasks in order of deadline, and the updates left until each deadline.

    That number is negative if the deadline has passed, and 0 if it will have passed at the next update. Of equal
    deadlines, the shorter slide comes first.
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

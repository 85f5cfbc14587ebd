"""Many cases on one host at once: step by step together, each under names of its own.

A Spark job takes seconds to start and a good part of one for each micro-batch, so cases share them. A round is one of

    statements    what all cases that stand at statements execute: one text, hence one change of a running job
    rows          pushes, punctuations and flushes, one step of each case that stands at one: one micro-batch
    lookups       all that cases stand at, side by side: they may share a micro-batch too
    restart       what `snapshot` asks for: all cases are stopped and go on together

and what is only read (results, counts, states, refusals) happens between rounds. Statements and restarts wait until no
case stands at rows, which makes the fewest of them: as many as the case that has the most. A case that fails leaves;
the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from panewise.errors import PanewiseError
from tests.case_files import Case, Step, declared_types
from tests.case_names import with_prefix
from tests.case_runner import run_step


class Job(Protocol):
    """What hosts many cases; instants are microseconds. Rows and punctuations take effect when `process` returns."""

    @property
    def started(self) -> bool: ...  # whether a change of statements costs a restart

    def execute(self, text: str) -> pa.Table | None: ...
    def push(self, name: str, rows: list[dict[str, Any]]) -> None: ...
    def advance(self, name: str, until: int) -> None: ...
    def flush(self, streams: Sequence[str]) -> None: ...
    def process(self) -> None: ...
    def results(self, name: str) -> pa.Table: ...
    def lookup(self, name: str, at: int | None) -> pa.Table: ...
    def late_rows(self, name: str) -> pa.Table: ...
    def stats(self) -> dict[str, Any]: ...
    def restart(self) -> None: ...


class Refused(Exception):
    """What the job refuses, in the words of the case: without the prefix."""


class CaseView:
    """The one host that a case sees (see `case_runner.Host`): its own names in a job that has many."""

    name = "spark"
    tells_errors = True

    def __init__(self, job: Job, prefix: str, streams: Iterable[str] = ()) -> None:
        self.job, self.prefix, self.streams = job, prefix, list(streams)

    def execute(self, text: str) -> list[dict[str, Any]] | None:
        table = self._own(lambda: self.job.execute(with_prefix(text, self.prefix)))
        return None if table is None else self._rows(table)

    def _rows(self, table: pa.Table) -> list[dict[str, Any]]:
        """Of a list of all things in the job (SHOW), those of this case; any other answer as it is."""
        if "name" not in table.column_names:
            return list(table.to_pylist())
        own = [row for row in table.to_pylist() if row["name"].startswith(self.prefix)]
        return [row | {"name": row["name"].removeprefix(self.prefix)} for row in own]

    def push(self, name: str, rows: list[dict[str, Any]]) -> None:
        self._own(lambda: self.job.push(self.prefix + name, rows))

    def advance(self, name: str, until: int) -> None:
        self._own(lambda: self.job.advance(self.prefix + name, until))

    def flush(self) -> None:
        self._own(lambda: self.job.flush([self.prefix + name for name in self.streams]))

    def results(self, name: str) -> list[dict[str, Any]]:
        return list(self._own(lambda: self.job.results(self.prefix + name)).to_pylist())

    def lookup(self, name: str, at: int | None) -> list[dict[str, Any]]:
        return list(self._own(lambda: self.job.lookup(self.prefix + name, at)).to_pylist())

    def late_rows(self, name: str) -> list[dict[str, Any]]:
        return list(self._own(lambda: self.job.late_rows(self.prefix + name)).to_pylist())

    def late_count(self, name: str) -> int:
        return int(self.job.stats()["streams"][self.prefix + name]["late_rows"])

    def bad_count(self, name: str) -> int:
        return int(self.job.stats()["streams"][self.prefix + name]["bad_rows"])

    def status(self, name: str) -> str:
        return str(self.job.stats()["queries"][self.prefix + name]["status"])

    def snapshot_and_restore(self) -> None:
        self.job.restart()

    def _own(self, attempt: Callable[[], Any]) -> Any:
        try:
            return attempt()
        except PanewiseError as error:
            raise Refused(str(error).replace(self.prefix, "") if self.prefix else str(error)) from error


@dataclass
class _Run:
    """A case on its way: the next step, and how it ended."""

    case: Case
    view: CaseView
    at: int = 0
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def step(self) -> Step | None:
        return None if self.error is not None or self.at == len(self.case.steps) else self.case.steps[self.at]

    @property
    def waits_for(self) -> str | None:
        """The kind of round that its next step needs: "" for none, None at the end of the case."""
        match self.step:
            case None:
                return None
            case Step(action="execute", table=None, text=text) if text.strip():
                return "statements"
            case Step(action="push", fails=None) | Step(action="advance" | "flush"):
                return "rows"
            case Step(action="lookup"):
                return "lookups"
            case Step(action="snapshot"):
                return "restart"
        return ""

    def take(self) -> None:
        """Runs the next step on the case's own view."""
        assert self.step is not None
        try:
            run_step(self.case, self.step, self.view, "batches", (Refused,), self.types)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to this case, and the others go on
            self.error = error
        self.passed()

    def passed(self) -> None:
        self.types |= declared_types(self.case.steps[self.at].text)
        self.view.streams = list(self.types)
        self.at += 1


def run_together(cases: Sequence[Case], job: Job, prefixes: Sequence[str]) -> dict[str, Exception | None]:
    """Runs all cases on one job; says for each what went wrong, or None."""
    runs = [_Run(case, CaseView(job, prefix)) for case, prefix in zip(cases, prefixes, strict=True)]
    try:
        while _one_round(runs, job):
            pass
    except Exception as error:  # noqa: BLE001 - the job is gone, and with it every case that has not ended
        for run in runs:
            if run.step is not None:
                run.error = error
    return {str(run.case): run.error for run in runs}


def _one_round(runs: list[_Run], job: Job) -> bool:
    """Reads all that can be read, then does the round that comes next; whether there was one."""
    for run in runs:
        while run.waits_for == "":
            run.take()
    for kind, round_of in _ROUNDS.items():
        if waiting := [run for run in runs if run.waits_for == kind]:
            round_of(waiting, job)
            return True
    return False


def _rows(runs: list[_Run], job: Job) -> None:
    for run in runs:
        run.take()
    job.process()


def _lookups(runs: list[_Run], job: Job) -> None:
    with ThreadPoolExecutor(len(runs)) as pool:
        list(pool.map(_Run.take, runs))


def _restart(runs: list[_Run], job: Job) -> None:
    job.restart()
    for run in runs:
        run.passed()


def _statements(runs: list[_Run], job: Job) -> None:
    """One text for all where a change costs a restart; before the job runs each alone, to know which one fails."""
    if not job.started or len(runs) == 1:
        for run in runs:
            run.take()
        return
    texts = [with_prefix(run.step.text, run.view.prefix) for run in runs if run.step is not None]
    try:
        job.execute("\n;\n".join(texts))
    except PanewiseError as error:
        # Nobody can say how far the text came, so that none of these cases may go on.
        for run in runs:
            run.error = error
    for run in runs:
        run.passed()


# In the order in which they come: what comes later waits for what comes before.
_ROUNDS = {"lookups": _lookups, "rows": _rows, "restart": _restart, "statements": _statements}

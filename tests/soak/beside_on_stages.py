"""The lives of `beside_and_alone` in the stages of the Spark pipeline: beside others, alone, and on the engine.

The stages run without a session (`local_run`), with workers that forget what they keep and attempts that fail. Each
push and punctuation is a micro-batch. The witness of a query is the embedded engine, where it is always there.

Left out of the scripts are rows that are late (the engine judges them row by row, Spark micro-batch by micro-batch),
and what only the engine has: lookups of the past, archives, and flushes, which close other windows beside others.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.soak.beside_and_alone import Case, always_there, judge_of, times_of
from tests.soak.life_players import Life, Player, as_table, said_in
from tests.soak.life_scripts import ScriptWriter, shrunk, told
from tests.soak.lives import STREAMS, Script, Step
from tests.spark.local_tables import TableRun

LEFT_OUT = ("flush", "lookup", "fetch", "restore", "reopen", "replay")


def play(seed: int) -> int:
    """Plays one script; 1."""
    script = on_time(ScriptWriter(seed).script())
    problem = problem_of(script, seed)
    if problem is not None:
        smaller = shrunk(script, lambda candidate: _alike(problem, problem_of(candidate, seed)))
        raise AssertionError(f"seed {seed}: {problem_of(smaller, seed) or problem}\n{told(smaller)}")
    return 1


def _alike(problem: str, other: str | None) -> bool:
    """Whether a smaller script has the same problem: with the same query, told in the same words."""
    return other is not None and _kind(other) == _kind(problem)


def _kind(problem: str) -> tuple[str, str]:
    return problem.split()[0], re.sub(r"[^a-z ]+.*", "", problem.partition("\n")[2].strip())


def problem_of(script: Script, seed: int) -> str | None:
    """What is wrong with the answers, if anything."""
    try:
        beside = StagesPlayer(script, script.queries, seed, beside=True).play()
        cases = [Case(script, number) for number in script.queries]
        witnesses = always_there(script, cases)
        for case in cases:
            judge(case, beside.lives[case.number], witnesses, seed)
    except AssertionError as error:
        return str(error) or repr(error)
    except Exception as error:  # noqa: BLE001 - whatever a stage raises is a failure to be told with its script
        return repr(error)
    return None


def judge(case: Case, beside: Life, witnesses: dict[str, Life], seed: int) -> None:
    query, script, number = case.query, case.script, case.number
    alone = StagesPlayer(script, case.closure, seed).play().lives[number]
    always = Player(script, case.closure).play().lives[number] if case.is_always_there else witnesses[number]
    try:
        judged = judge_of(case, always, witnesses)
        if query.own_past and not case.first and not alone.refused and not always.refused:
            judged.between(beside, alone)  # alone there was no bucket that had kept the rows behind the watermark
            return
        judged.compare(beside, alone)
        if case.is_always_there and not alone.refused:
            judged.same(alone, "in the stages")
    except AssertionError as error:
        raise AssertionError(f"{number} {query.statement}\n  {error}") from None


def on_time(script: Script) -> Script:
    """The script without the rows that are late, and without the steps that the stages do not have."""
    kept = {stream: times_of(script, stream) for stream in STREAMS}
    steps: list[Step] = []
    for step in script.steps:
        if step[0] == "push":
            # `times_of` tells the times of all rows that are not late, in the order in which they come.
            rows = tuple(row for row in step[2] if _taken(kept[step[1]], row["ts"]))
            steps += [("push", step[1], rows)] if rows else []
        elif step[0] not in LEFT_OUT:
            steps.append(step)
    return replace(script, steps=tuple(steps), archived=False, durable=False, behind=False, schedule="", referred="")


def _taken(times: list[int], time: int) -> bool:
    if times and times[0] == time:
        times.pop(0)
        return True
    return False


class StagesPlayer(Player):
    """Plays a script for some of its queries in the stages of the Spark pipeline."""

    def __init__(self, script: Script, numbers: Iterable[str], seed: int, *, beside: bool = False) -> None:
        super().__init__(script, numbers, beside=beside)
        self._seed = seed
        self._names: dict[str, str] = {}  # the query that has a name now, by name
        self._resumed = False  # since the last micro-batch
        self._failed: set[str] = set()

    def _play(self) -> StagesPlayer:
        with tempfile.TemporaryDirectory() as place:
            seed = self._seed if self.beside else None
            self._run = TableRun(Path(place), seed=seed, partitions=3, sharing=self.script.sharing)
            for name, statements in self.script.setup.items():
                if name in self._used:
                    self._execute(statements)
            for step in self.script.steps:
                self._step(step)
        return self

    def _step(self, step: Step) -> None:
        match step:
            case ("push", stream, rows):
                if stream in self._used:
                    self._run.push(stream, as_table(rows).combine_chunks().to_batches()[0])
                    self._micro_batch()
            case ("advance", stream, until):
                if stream in self._used:
                    self._run.advance(stream, until)
                    self._micro_batch()
            case ("drop", number) if number in self._failed:
                self._run.execute(f"DROP QUERY {self.texts[number].name}")
            case _:
                super()._step(step)

    def _execute(self, text: str) -> None:
        self._run.execute(text)

    def _create(self, number: str) -> None:
        super()._create(number)
        if self._there(number):
            self._names[self.texts[number].name] = number

    def _of_query(self, verb: str, number: str, rest: list[object]) -> None:
        if verb == "resume":
            self._resumed = True
        elif self._resumed:  # what a change log says first when it is resumed comes with the next micro-batch
            self._micro_batch()
        life = self.lives[number]
        if verb != "drop" or len(life.spans) % 2:  # else it is suspended already
            life.spans.append({})
        self._run.execute(f"{verb.upper()} QUERY {self.texts[number].name}")
        life.dropped = verb == "drop"

    def _micro_batch(self) -> None:
        """Processes the messages that wait; what queries say in it goes to the spans in which they are."""
        self._resumed = False
        for name, table in self._run.run().items():
            life = self.lives[self._names[name]]
            life.is_log = "change" in table.column_names
            for instant, values, change in said_in(table, life.is_log):
                life.spans[-1].setdefault(instant, Counter())[values] += change
        for name, reason in self._run.handle.failed().items():
            number = self._names[name]
            life = self.lives[number]
            assert not any(life.spans), f"{number} FAILED when it had begun: {reason}"
            self._failed.add(number)
            life.refused = reason  # only workers know that rows have gone by which it would need

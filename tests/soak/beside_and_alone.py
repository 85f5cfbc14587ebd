"""A query beside others says what it says alone: one property over every kind of query, window and life.

A script with many queries is played in one engine, and for every query of it once more with that query alone (and those
that it reads) in an engine that shares nothing and is never restarted, and once with that query from the beginning on.
`life_judgement` says what may differ. Further witnesses of what a query that is always there says: a subquery in FROM
may as well be a query with a name, and `tests.reference` computes some queries from all rows.

    python -m tests.soak beside_and_alone --seed 17 --plays 1
"""

from __future__ import annotations

import re
from dataclasses import replace
from unittest import mock

from panewise.operators.family import dense_reporting
from tests.soak.life_judgement import Judge
from tests.soak.life_players import Life, Player
from tests.soak.life_reference import reference_life
from tests.soak.life_scripts import ScriptWriter, shrunk, told
from tests.soak.life_windows import SECOND
from tests.soak.lives import FOREVER, Query, Script


def play(seed: int) -> int:
    """Plays one script; 1."""
    script = ScriptWriter(seed).script()
    # Long runs of empty reports are kept in another way than short ones.
    with mock.patch.object(dense_reporting, "GAP_MATERIALISED", 3 if seed % 3 == 0 else 1024):
        problem = problem_of(script)
        if problem is not None:
            smaller = shrunk(script, lambda candidate: _alike(problem, problem_of(candidate)))
            raise AssertionError(f"seed {seed}: {problem_of(smaller) or problem}\n{told(smaller)}")
    return 1


def _alike(problem: str, other: str | None) -> bool:
    """Whether a smaller script has the same problem: with the same query, found by the same witness."""
    if other is None or other.split()[0] != problem.split()[0]:
        return False
    return ("by the reference" in other) == ("by the reference" in problem)


def problem_of(script: Script) -> str | None:
    """What is wrong with the answers, if anything."""
    try:
        beside = Player(script, script.queries, beside=True).play()
        cases = [Case(script, number) for number in script.queries]
        witnesses = always_there(script, cases)
        for case in cases:
            judge(case, beside.lives[case.number], witnesses)
    except AssertionError as error:
        return str(error) or repr(error)
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is a failure to be told with its script
        return repr(error)
    return None


class Case:
    """A query of a script, and what has to be known of it to judge it.

    `first`: it was created before anything came. `settled`: the instant from which on its answers do not depend on when
    it was created.
    """

    def __init__(self, script: Script, number: str) -> None:
        self.script, self.number, self.query = script, number, script.queries[number]
        self.closure = script.closure(number)
        self.first = all(created_first(script, other) for other in self.closure)
        self.settled = -FOREVER
        suspended = any(step[0] == "suspend" and step[1] in self.closure[:-1] for step in script.steps)
        if suspended or (self.query.settles_us >= FOREVER and not self.first):
            self.settled = FOREVER
        elif self.query.settles_us and not self.first:
            self.settled = watermark_at_creation(script, number) + self.query.settles_us

    @property
    def is_always_there(self) -> bool:
        interrupted = any(step[0] in ("suspend", "drop") for step in self.script.steps)
        return self.first and not interrupted and not self.query.options

    @property
    def state(self) -> str:
        """The text of what its first words are to be compared with."""
        return self.query.state if self.settled < FOREVER and not self.first else ""


def always_there(script: Script, cases: list[Case]) -> dict[str, Life]:
    """The lives of queries that are there from the beginning on, and of their states: all that read no other query in
    one engine, which shares nothing."""
    texts: dict[str, Query] = {}
    for case in cases:
        if not case.query.reads and not case.is_always_there:
            taken = {query.name for query in texts.values()}
            name = case.query.name if case.query.name not in taken else f"always_{case.number}"
            texts[case.number] = replace(case.query, name=name, options="")
        if not case.query.reads and case.state:
            name = f"state_{case.number}"
            texts[name] = replace(case.query, name=name, text=case.state, options="")
    lives = Player(replace(script, queries=texts), texts, always=True).play().lives if texts else {}
    for case in cases:
        if case.query.reads and not case.is_always_there:
            lives[case.number] = with_text(case, case.query.text)
        if case.query.reads and case.state:
            lives[f"state_{case.number}"] = with_text(case, case.state)
    return lives


def with_text(case: Case, text: str) -> Life:
    """The life of a query with this text that is always there, with those that it reads."""
    query = replace(case.query, text=text, options="")
    changed = replace(case.script, queries=case.script.queries | {case.number: query})
    return Player(changed, case.closure, always=True).play().lives[case.number]


def judge_of(case: Case, always: Life, witnesses: dict[str, Life]) -> Judge:
    """The judge of one query; `always`: its life on an engine where it is always there."""
    state = witnesses.get(f"state_{case.number}")
    if always.refused or (state is not None and state.refused):
        state = None
    return Judge(case.query, case.first, case.settled, always, state)


def judge(case: Case, beside: Life, witnesses: dict[str, Life]) -> None:
    query, script, number = case.query, case.script, case.number
    alone = Player(script, case.closure).play().lives[number]
    always = alone if case.is_always_there else witnesses[number]
    try:
        judged = judge_of(case, always, witnesses)
        judged.compare(beside, alone)
        if query.inline:
            judged.same(named(script, number), "as a query by name")
        if query.opened_by and not always.refused:
            begins_with_a_row(script, query, always)
        if script.referred == number:
            judged.same(reference_life(script, number), "by the reference")
    except AssertionError as error:
        raise AssertionError(f"{number} {query.statement}\n  {error}") from None


def begins_with_a_row(script: Script, query: Query, always: Life) -> None:
    """The first report of an ungrouped answer over several inputs is the first that shows a row of one of them."""
    reports = [side.first_report(times_of(script, side.stream)) for side in query.opened_by]
    wanted = min((end for end in reports if end is not None), default=FOREVER)
    found = min((instant for span in always.spans for instant in span), default=FOREVER)
    reached = max((step[2] for step in script.steps if step[0] == "advance"), default=-FOREVER)
    unreached = found == FOREVER and wanted > reached
    assert found == wanted or unreached, f"its first report is of {found}, and not of {wanted}"


def times_of(script: Script, stream: str) -> list[int]:
    """Of the rows that were not late."""
    delay = re.search(r"INTERVAL (\d+) SECONDS", script.setup[stream])
    delay_us = int(delay[1]) * SECOND if delay else 0
    watermark, found = -FOREVER, []
    for step in script.steps:
        if step[:2] == ("advance", stream):
            watermark = max(watermark, step[2])
        for row in step[2] if step[:2] == ("push", stream) else ():
            if row["ts"] >= watermark:
                found.append(row["ts"])
                watermark = max(watermark, row["ts"] - delay_us)
    return found


def named(script: Script, number: str) -> Life:
    """The life of a query that is always there, with its subquery as a query by name."""
    query = script.queries[number]
    inner = replace(query, name="inner_query", text=query.inline, inline="", options="")
    outer = replace(query, text=query.text.replace(f"({query.inline})", inner.name), reads=("inner",), options="")
    changed = replace(script, queries={"inner": inner, number: outer})
    return Player(changed, ("inner", number), always=True).play().lives[number]


def created_first(script: Script, number: str) -> bool:
    """Whether the query was created before anything came to its streams."""
    for step in script.steps:
        if step == ("create", number):
            return True
        if step[0] in ("push", "advance", "execute") and step[1] in script.queries[number].inputs:
            return False
    return False


def watermark_at_creation(script: Script, number: str) -> int:
    """The greatest time that had come when the last of the queries that it is made of was created."""
    greatest = -FOREVER
    for step in script.steps:
        if step == ("create", number):
            break
        if step[0] == "push" and step[1] in script.queries[number].inputs:
            greatest = max([greatest, *(row["ts"] for row in step[2])])
        if step[0] == "advance":
            greatest = max(greatest, step[2])
    return greatest

"""A query beside others says what it says alone: one property over every kind of query, window and life.

A script with many queries is played in one engine, and for every query of it once more with that query alone (and those
that it reads) in an engine that shares nothing and is never restarted, and once with that query from the beginning on.
`life_judgement` says what may differ. Further witnesses of what a query that is always there says: a subquery in FROM
may as well be a query with a name, and `tests.reference` computes some queries from all rows.

    python -m tests.soak beside_and_alone --seed 17 --plays 1
"""

from __future__ import annotations

from dataclasses import replace

from tests.soak.life_judgement import Judge
from tests.soak.life_players import Life, Player
from tests.soak.life_reference import reference_life
from tests.soak.life_scripts import ScriptWriter, shrunk, told
from tests.soak.lives import FOREVER, Script


def play(seed: int) -> int:
    """Plays one script; 1."""
    script = ScriptWriter(seed).script()
    problem = problem_of(script)
    if problem is not None:
        smaller = shrunk(script, lambda candidate: problem_of(candidate) is not None)
        raise AssertionError(f"seed {seed}: {problem_of(smaller) or problem}\n{told(smaller)}")
    return 1


def problem_of(script: Script) -> str | None:
    """What is wrong with the answers, if anything."""
    try:
        beside = Player(script, script.queries, beside=True).play()
        for number in script.queries:
            judge(script, number, beside.lives[number])
    except AssertionError as error:
        return str(error) or repr(error)
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is a failure to be told with its script
        return repr(error)
    return None


def judge(script: Script, number: str, beside: Life) -> None:
    query = script.queries[number]
    closure = script.closure(number)
    alone = Player(script, closure).play().lives[number]
    first = all(created_first(script, other) for other in closure)
    suspended = any(step[0] == "suspend" and step[1] in closure[:-1] for step in script.steps)
    settled = -FOREVER
    if suspended or (query.settles_us >= FOREVER and not first):
        settled = FOREVER
    elif query.settles_us and not first:
        settled = watermark_at_creation(script, number) + query.settles_us
    uninterrupted = not any(step[0] in ("suspend", "drop") for step in script.steps)
    if first and uninterrupted and not query.options:
        always = alone
    else:
        always = with_text(script, number, query.text, closure)
    state = with_text(script, number, query.state, closure) if query.state and settled < FOREVER and not first else None
    if always.refused or (state is not None and state.refused):
        state = None
    retained = script.archived or any("retain" in script.setup[name] for name in query.inputs)
    try:
        judged = Judge(query, first, settled, always, state, retained)
        judged.compare(beside, alone)
        if query.inline:
            judged.same(named(script, number), "as a query by name")
        if script.referred == number:
            judged.same(reference_life(script, number), "by the reference")
    except AssertionError as error:
        raise AssertionError(f"{number} {query.statement}\n  {error}") from None


def with_text(script: Script, number: str, text: str, closure: list[str]) -> Life:
    """The life of a query with this text that is always there."""
    query = replace(script.queries[number], text=text, options="")
    changed = replace(script, queries=script.queries | {number: query})
    return Player(changed, closure, always=True).play().lives[number]


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

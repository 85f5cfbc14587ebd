"""The woven plan gives exactly the answers of each query run alone, through whatever happens in mid-stream.

The weaver is made to weave at random, again and again, so that trees come, go and are joined between any two flushes;
and once it is left alone, with queries that are worth weaving.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random, SystemRandom

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.optimize.sharing.costs.calibration import shipped
from panewise.optimize.sharing.weave import weaver
from panewise.synopses.techniques import TECHNIQUES
from tests.engine.hosting.random_weaves import (
    BEGINNING,
    SECOND,
    STREAM,
    TREES_BY,
    Script,
    ScriptWriter,
    Window,
    Woven,
    long_script,
    woven_at_random,
)
from tests.engine.hosting.weave_players import Player, compare, same, values
from tests.now_or_soak import soaking
from tests.operators.family.divided import divided

SEEDS = range(6)
# But the oracle, which no weaver chooses: its snapshots are not those of the others.
ALL_TREES_BY = tuple(name for name in TECHNIQUES if name != "recompute")
seeds = st.integers(0, 2**32 - 1)


def check(script: Script, chance: Random, techniques: tuple[str, ...] = TREES_BY) -> tuple[Script, Player, Woven]:
    """Plays a script woven, and with each query alone; now and then also unwoven, as one tree or as many."""
    dense_groups = chance.choice((4096, 4096, 4096, 4))
    with woven_at_random(chance, techniques, dense_groups, often=chance.choice((0.2, 0.6))) as done:
        woven = Player(script, "weave", together=False).play()
    alone = Player(script, "none", together=True).play()
    compare(script, woven, alone)
    if chance.random() < 0.2:
        compare(script, Player(script, chance.choice(("none", "full")), together=False).play(), alone)
    return script, woven, done


def check_seed(seed: int, turns: int, techniques: tuple[str, ...] = TREES_BY) -> tuple[Script, Player, Woven]:
    chance = Random(seed)
    return check(long_script(chance, turns), chance, techniques)


@settings(max_examples=settings.default.max_examples // 4)
@given(st.lists(seeds, min_size=1, max_size=8), st.lists(seeds, min_size=1, max_size=6), seeds)
def test_woven_as_alone(queries: list[int], turns: list[int], weaving: int) -> None:
    check(ScriptWriter(queries, turns).script, Random(weaving))


@pytest.mark.parametrize("seed", soaking(SEEDS, now=[0, 1, 3]))
def test_long_scripts(seed: int) -> None:
    check_seed(seed, turns=12)


@pytest.mark.soak
def test_very_many_scripts(figure: Callable[[str, object], None]) -> None:
    """By all techniques, from a seed that is another one each time."""
    first = SystemRandom().randrange(1_000, 1_000_000_000)
    for seed in range(first, first + 1_500):
        try:
            check_seed(seed, turns=14, techniques=ALL_TREES_BY)
        except Exception as problem:
            problem.add_note(f"seed {seed}")
            raise
    figure("woven scripts, 1500 from", first)


def test_scripts_are_worth_playing() -> None:
    """What is compared must not be empty: trees are woven, joined and left, and most queries have much to say."""
    played = [check_seed(seed, turns=12) for seed in range(100, 104)]
    assert sum(done.weaves for _, _, done in played) > 60
    assert sum(done.trees_most > 2 for _, _, done in played) > 2
    assert sum(done.members_of_trees for _, _, done in played) > 40
    assert sum(done.joins for _, _, done in played) > 10
    assert sum(done.folds_for_several for _, _, done in played) > 60
    queries = [(script, woven, number) for script, woven, _ in played for number in script.queries]
    later = [(woven, number) for script, woven, number in queries if number not in script.first]
    assert sum(bool(woven.fetched[number]) for _, woven, number in queries) > 0.6 * len(queries)
    assert sum(bool(woven.fetched[number]) for woven, number in later) > 0.4 * len(later) > 10
    assert any(woven.heard[number] for _, woven, number in queries)
    assert any(found for _, woven, _ in played for _, found in woven.looked)
    assert sum(script.late for script, _, _ in played) > 5


def test_slices_that_nobody_needs_go_before_a_tree_has_taken_them() -> None:
    """Between the windows of all members a tree waits for its next edge, and the slices go meanwhile."""
    found = []
    for sharing in ("weave", "none"):
        engine = pw.Engine(sharing=sharing)
        engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT)")
        engine.execute("CREATE QUERY q0 AS SELECT MAX(v) AS m, SUM(v) AS s FROM t [RANGE 2 SECONDS SLIDE 10 SECONDS]")
        engine.execute("CREATE QUERY q1 AS SELECT MAX(v) AS m, SUM(v) AS s FROM t [RANGE 1 SECOND SLIDE 3 SECONDS]")
        if sharing == "weave":
            family = engine.hosting.families[0].family
            family.become(divided(family, [("b_int", ["q0"])]))
        for n in range(80):
            engine.push("t", [{"ts": n * SECOND // 2, "v": n * 37 % 101}])
            engine.stats()  # rows do not wait for others
        found.append([values(engine.results(name)) for name in ("q0", "q1")])
    assert len(found[0][0]) == 3
    assert found[0] == found[1]


def test_state_levels_off() -> None:
    """Of woven trees that stay as they are, and again while queries come and go."""
    with woven_at_random(Random(5), often=0.0) as done:
        engine = pw.Engine()
        engine.execute(STREAM)
        for number in range(12):
            window = Window((number + 3) * SECOND, (number % 4 + 1) * SECOND)
            engine.execute(f"CREATE QUERY q{number} AS SELECT k, MAX(x) AS m FROM t {window} GROUP BY k")
        held = []
        for n in range(600):
            row = {"ts": BEGINNING + n * SECOND, "k": "abc"[n % 3], "v": n, "x": n * 37 % 101 / 8, "w": "p"}
            engine.push("t", [row])
            if n > 300 and n % 3 == 0:
                number = n // 3 % 12
                text = f"SELECT k, MAX(x) AS m FROM t [RANGE {number + 3} SECONDS SLIDE 1 SECOND] GROUP BY k"
                engine.execute(f"DROP QUERY q{number}; CREATE QUERY q{number} AS {text}")
            held.append(engine.stats()["trees"][0]["bytes"])
        assert done.trees_most > 1
        assert done.joins > 5
    assert max(held[200:300]) < 1.1 * max(held[50:150])
    assert max(held[450:]) < 1.3 * max(held[300:450])


# -- the real weaver -------------------------------------------------------------------------------------------------

# Windows of the past, because techniques for those that end now make one tree the cheapest for most sets of queries.
WORTH_WEAVING = [
    f"SELECT MAX(x) AS m FROM t [RANGE {length} MS SLIDE {slide} MS OFFSET 1 SECOND]"
    for slide, lengths in ((10, (20, 35)), (1_000, range(1_000, 41_000, 1_000)))
    for length in lengths
]


def test_the_weaver_weaves_where_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the costs that panewise ships; one query more goes into the tree that has its edges."""
    monkeypatch.setattr(weaver, "machine", shipped)
    engines = [pw.Engine(sharing=mode) for mode in ("weave", "full", "none")]
    rows = [{"ts": n * SECOND // 10, "x": n * 37 % 101 / 8} for n in range(1_200)]
    answers = []
    for engine in engines:
        engine.execute("CREATE STREAM t (ts TIMESTAMP, x DOUBLE)")
        for number, text in enumerate(WORTH_WEAVING):
            engine.execute(f"CREATE QUERY q{number} AS {text}")
        engine.push("t", rows[:600])
        engine.execute("CREATE QUERY late AS SELECT MAX(x) AS m FROM t [RANGE 7 SECONDS SLIDE 2 SECONDS]")
        engine.push("t", rows[600:])
        engine.flush()
        names = [*(f"q{number}" for number in range(len(WORTH_WEAVING))), "late"]
        answers.append([values(engine.results(name)) for name in names])
    woven, full, none = (engine.sharing_report() for engine in engines)
    assert (full.tree_count, none.tree_count) == (1, len(WORTH_WEAVING) + 1)
    trees = [[name for name, _ in tree.members] for tree in woven.families[0].trees]
    assert trees == [["q0", "q1"], [*(f"q{number}" for number in range(2, len(WORTH_WEAVING))), "late"]]
    assert woven.cost < woven.cost_full
    for number in range(len(WORTH_WEAVING)):
        assert len(answers[0][number]) > 80
        assert same(answers[0][number], answers[2][number])
        assert same(answers[1][number], answers[2][number])
    first = answers[2][-1][0][1]
    for late in (answers[0][-1], answers[1][-1]):
        assert same([row for row in late if row[1] >= first], answers[2][-1])

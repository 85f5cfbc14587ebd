"""A query says beside others what it says alone, in Spark's stages too: a few of the scripts of `make soak`."""

from __future__ import annotations

import pytest

from tests.now_or_soak import soaking
from tests.soak.beside_on_stages import on_time, play
from tests.soak.life_scripts import ScriptWriter
from tests.soak.lives import Script


@pytest.mark.parametrize("seed", soaking(range(40), now=range(12)))
def test_scripts(seed: int) -> None:
    assert play(seed) == 1


def test_late_rows_are_left_out() -> None:
    row = {"k": "a", "i": 1, "v": 1, "x": 0.5, "w": "p", "b": True}
    rows = tuple(row | {"ts": seconds * 1_000_000} for seconds in (5, 2, 9, 6, 7))
    setup = {"t": "CREATE STREAM t (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)"}
    setup["u"] = setup["t"].replace(" t ", " u ")
    script = Script(setup=setup, steps=(("push", "t", rows), ("flush",), ("push", "u", rows[1:2])))
    assert [[at["ts"] // 1_000_000 for at in step[2]] for step in on_time(script).steps] == [[5, 9, 7], [2]]


def test_scripts_keep_most_of_their_steps() -> None:
    scripts = [ScriptWriter(seed).script() for seed in range(100)]
    steps = [step[0] for script in scripts for step in on_time(script).steps]
    assert {"push", "advance", "execute", "create", "suspend", "resume", "drop"} == set(steps)
    rows = sum(len(step[2]) for script in scripts for step in on_time(script).steps if step[0] == "push")
    pushed = sum(len(step[2]) for script in scripts for step in script.steps if step[0] == "push")
    assert rows > 0.9 * pushed

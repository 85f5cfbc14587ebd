"""What the slow and obvious reference says of one query of a script that is always there."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from tests.case_files import moment
from tests.reference.host import ReferenceHost
from tests.reference.tokens import EPOCH, MICROSECOND, NotCovered
from tests.soak.life_players import Life, plain
from tests.soak.lives import Script


def reference_life(script: Script, number: str) -> Life | None:
    """None where the reference does not cover the query."""
    query = script.queries[number]
    if query.reads or query.inputs not in (("t",), ("u",)):
        return None
    stream = query.inputs[0]
    host, life = ReferenceHost(), Life()
    try:
        host.execute(script.setup[stream].split(" WITH (")[0] + ";")
        host.execute(f"CREATE QUERY q AS {query.text};")
        for step in script.steps:
            if step[:2] == ("push", stream):
                host.push(stream, [row | {"ts": moment(row["ts"])} for row in step[2]])
            elif step[:2] == ("advance", stream):
                host.advance(stream, step[2])
        rows = host.results("q")
    except NotCovered:
        return None
    for row in rows:
        instant = _number(row.get("window_end", row.get("instant")))
        life.is_log = life.is_log or "change" in row
        values = tuple(_number(value) for name, value in row.items() if name not in ("instant", "change"))
        life.spans[0].setdefault(instant, Counter())[values] += row.get("change", 1)
    return life


def _number(value: Any) -> Any:
    return (value - EPOCH) // MICROSECOND if isinstance(value, datetime) else plain(value)

"""The isolation level of a history, by the definitions in Golab 2006, sections 7.3.2 and 7.6.

    SERIAL           transactions run one after another, and every read sees the window as it is
    LATEST_WINDOW    every committed read saw the window as of its commit           (definition 7.2, LWS)
    WINDOW           every committed read saw the window as of some earlier move    (definition 7.1, WS)
    SERIALIZABLE     some order of whole transactions has the same conflicts; reads may see a window that never existed
    NONE             not serializable

Each level includes those below it. Commit-order preserving serializability (CPS) is independent of the levels: all
conflicts have the order of the commits. A window "as of a commit" includes moves that have written but not committed,
as history Hh of the thesis does; window moves commit at once in any case.

The schedulers are tested with this checker, so it shares no code with them. It replays the history (`views.py`), and
compares what reads saw with what the window held. `serialization_graph.py` decides the same by theorems 7.1 and 7.2,
`papers/golab2006/serial_orders.py` by trying all orders. Time: a step for each operation, and the conflict graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from panewise.schedule.isolation.histories import ENDS, History, Transaction
from panewise.schedule.isolation.serialization_graph import serialization_graph
from panewise.schedule.isolation.views import CommittedRead, Replay, replay


class Level(IntEnum):
    NONE = 0
    SERIALIZABLE = 1
    WINDOW = 2
    LATEST_WINDOW = 3
    SERIAL = 4


@dataclass(frozen=True)
class Isolation:
    level: Level
    commit_order_preserving: bool


def isolation(history: History) -> Isolation:
    """The highest level of a history.

    >>> stale = History.parse("rQ[0] w2[0] c2 rQ[1] cQ", sub_windows=2)
    >>> isolation(stale).level.name
    'WINDOW'
    """
    graph = serialization_graph(history)
    if not graph.is_acyclic():
        return Isolation(Level.NONE, commit_order_preserving=False)
    level = window_level(history)
    if level is Level.LATEST_WINDOW and not is_interleaved(history):
        level = Level.SERIAL
    return Isolation(level, graph.preserves_commit_order())


def has_level(history: History, level: Level) -> bool:
    """Whether a history has at least this level. From WINDOW on no graph is needed, so long histories are cheap.

    >>> has_level(History.parse("rQ[0] w2[0] c2 rQ[1] cQ", sub_windows=2), Level.LATEST_WINDOW)
    False
    """
    if level < Level.WINDOW:
        return isolation(history).level >= level
    if level is Level.SERIAL and is_interleaved(history):
        return False
    return window_level(history) >= min(level, Level.LATEST_WINDOW)


def window_level(history: History) -> Level:
    """LATEST_WINDOW or WINDOW by definitions 7.2 and 7.1; SERIALIZABLE means neither, and is not checked."""
    done = replay(history)
    if not all(saw_a_window(read, done, history.sub_windows) for read in done.reads):
        return Level.SERIALIZABLE
    latest = all(read.youngest == read.last_move_at_commit for read in done.reads)
    return Level.LATEST_WINDOW if latest else Level.WINDOW


def saw_a_window(read: CommittedRead, done: Replay, sub_windows: int) -> bool:
    """Whether the read's view is the window as of some move."""
    # The window as of move m always holds copy m, so only the move of the youngest copy seen is possible.
    return read.view == done.state(read.youngest, read.length, sub_windows)


def is_interleaved(history: History) -> bool:
    """Whether some transaction begins before another has ended, not counting aborted reads."""
    ends = {step.transaction: place for place, step in enumerate(history.operations) if step.kind in ENDS}
    committed: set[Transaction] = {*history.moves, *history.committed_reads}
    running: Transaction | None = None
    for place, step in enumerate(history.operations):
        if step.transaction not in committed:
            continue
        if running is not None and running != step.transaction:
            return True
        running = None if ends[step.transaction] == place else step.transaction
    return False

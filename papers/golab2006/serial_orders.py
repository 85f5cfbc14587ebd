"""All serial orders that a history is equivalent to, by trying every one: the slow and obvious judge.

An order is equivalent when, with whole transactions run in it, every committed read sees what it saw in the history and
the sub-windows hold in the end what they held. Then, by definitions 7.1 and 7.2 of Golab 2006:

    window-serializable           an equivalent order has the moves by number, and each read scans the youngest copies
    latest-window-serializable    and each read comes after all moves that had written when it committed

Time: (moves + reads)! orders; for histories of up to seven transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from panewise.schedule.isolation.histories import History, OperationKind, Transaction
from panewise.schedule.isolation.views import CommittedRead, Content, replay


def serial_orders(history: History) -> Iterator[tuple[Transaction, ...]]:
    """
    >>> list(serial_orders(History.parse("rQ[0] w2[0] c2 rQ[1] cQ", sub_windows=2)))
    [('Q', 2)]
    """
    done = replay(history)
    reads = {read.name: read for read in done.reads}
    inserted: dict[int, list[int]] = {}
    for step in history.operations:
        if step.kind is OperationKind.INSERT and isinstance(step.transaction, int) and step.sub_window is not None:
            inserted.setdefault(step.transaction, []).append(step.sub_window)
    first = replay(History((), history.sub_windows, {}, history.filled)).final
    transactions: list[Transaction] = [*history.moves, *reads]
    for order in permutations(transactions):
        held = dict(first)
        for transaction in order:
            if isinstance(transaction, int):
                held[transaction % history.sub_windows] = Content(transaction)
                for sub_window in inserted.get(transaction, ()):
                    held[sub_window] = held[sub_window].with_insert(transaction)
            elif any(held[place] != content for place, content in reads[transaction].view.items()):
                break
        else:
            if held == done.final:
                yield order


def is_window_serializable_by_orders(history: History, latest: bool) -> bool:
    """Whether some order shows it; `latest` for latest-window-serializable."""
    reads = {read.name: read for read in replay(history).reads}
    return any(_shows_windows(order, history, reads, latest) for order in serial_orders(history))


def _shows_windows(
    order: tuple[Transaction, ...], history: History, reads: dict[str, CommittedRead], latest: bool
) -> bool:
    last_move = history.filled - 1
    for transaction in order:
        if isinstance(transaction, int):
            if transaction != last_move + 1:
                return False
            last_move = transaction
            continue
        read = reads[transaction]
        youngest = {(last_move - age) % history.sub_windows for age in range(read.length)}
        if set(read.view) != youngest or last_move > read.last_move_at_commit:
            return False
        if latest and last_move < read.last_move_at_commit:
            return False
    return True

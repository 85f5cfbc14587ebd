"""Folding rows once for several families, which differ in WHERE, or group by some of the keys of others.

Families over one stream that keep their states by slices of time are *guests* of a common *host*: a family that only
folds. The host groups by the keys of all guests, and by the class of the row, which says whose WHERE keeps the row
(`selection_classes.py`). Its slices are cut at the edges of every guest. After each batch, the host's partials, far
fewer than rows, are given to the guests. A guest merges the partials of its classes by its own keys. The host keeps
nothing. If several batches belong together, partials are given to the guests after the last one.

    rows -> classes -> group ids -> slots -> fold                  | once for all guests
    partials of the guest's classes -> its groups -> its slices    | for each guest, proportional to its partials

Invariant: each guest has the same state as if it had folded the rows that its WHERE keeps. The reason is that its
states combine in any order, and that a slice of the host lies within one slice of each guest. A family with other
states (user-defined states, or states without a fixed size) folds its rows itself.

The cost is compared after each batch. A guest for which merging partials was more expensive than folding its rows folds
for itself for some batches. All guests do so if they save less than the host costs. Golab 2006, section 8.3; the
roll-up of groupings is not described there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers, wrapped
from panewise.aggregates.holistic import HeldKind
from panewise.aggregates.states import Operation
from panewise.arrays import Ints
from panewise.errors import raise_interrupt_behind
from panewise.language.expressions import ColumnRef, Expression
from panewise.language.sql_text import to_sql
from panewise.operators.family.family import Family
from panewise.operators.family.partials import END, START
from panewise.operators.row_batch import Rows
from panewise.operators.shared_fold.fold_prices import TAKE_NS, Rest, alone_ns, class_ns, fold_ns, merge_ns
from panewise.operators.shared_fold.selection_classes import ChosenRows, Mask, SelectionClasses
from panewise.optimize.sharing.report.family_report import FoldedWith
from panewise.optimize.sharing.report.report_texts import counted
from panewise.optimize.sharing.selections.roll_up import combines, key_name
from panewise.plan.aggregation import ROW_COUNT, StateKey
from panewise.schema import BIGINT

ROWS_LEAST = 4096  # rows in a batch; fewer are not worth a second table of groups
MARGIN = 1.25  # safety factor on the cost of a host
TRIAL_ROWS = 8192  # rows with which an untried host is tested before it gets the rest
# Fixed costs: of a batch that a family folds itself, and of giving partials to a guest.
BATCH_NS, GUEST_NS = 120_000.0, 200_000.0
_CLASS = "\0class_{}"  # a column name that no statement can use


class SharedFold:
    """Folds the rows of one stream for its families. It keeps only families that were there at the last batch."""

    def __init__(self) -> None:
        self._known: list[Family] = []
        self._changes: list[int] = []  # `changes` of each known family, when classes and hosts were made
        self._classes: list[SelectionClasses] = []
        self._hosts: list[Host] = []
        self._settled = True  # whether no batch came since the last `settle`
        self._apart = True  # whether each family folded the last batches for itself
        # Called with the families that an error has left inconsistent; the others continue. None: the error is raised.
        self.torn: Callable[[Sequence[Family], Exception], None] | None = None

    def fold(self, rows: Rows, families: list[Family], masks: Mapping[Expression, Mask] | None = None) -> None:
        """Folds rows into all families, into some of them at the next `settle`. Before that, no family may be read.

        `masks` has the rows that some WHERE clauses keep, as far as they are known.
        """
        if not len(rows):
            return
        if self._settled:
            self._settled, self._apart = False, True
        known = dict(masks or {})
        if len(rows) < ROWS_LEAST or len(families) < 2:
            if self._known != families:
                self._forget_all()
            for family in families:
                mask = known.get(family.where) if family.where is not None else None
                self._done([family], partial(family.fold, rows, mask))
            return
        self._apart = False
        self._follow(families)
        begin = 0
        if len(rows) > 2 * TRIAL_ROWS and any(host.untried for host in self._hosts):
            self._fold(rows.slice(0, TRIAL_ROWS), families, {where: mask[:TRIAL_ROWS] for where, mask in known.items()})
            self._settle()
            begin = TRIAL_ROWS
        rest = rows.slice(begin, len(rows)) if begin else rows
        self._fold(rest, families, {where: mask[begin:] for where, mask in known.items()})

    def _fold(self, rows: Rows, families: Sequence[Family], masks: dict[Expression, Mask]) -> None:
        chosen = ChosenRows(rows.batch, self._classes, masks)
        hosted: set[int] = set()
        for host in list(self._hosts):
            if not self._done(host.guests, partial(_fold_host, host, rows, chosen, hosted)):
                hosted.update(map(id, host.guests))
                self._forget(host)
        for family in families:
            if id(family) not in hosted:
                self._done([family], partial(_fold_family, family, rows, chosen))

    def settle(self) -> None:
        """Gives all families the rows that were folded so far."""
        self._settle()
        self._settled = True

    def _settle(self) -> None:
        for host in list(self._hosts):
            if not self._done(host.guests, host.settle):
                self._forget(host)

    def _done(self, families: Sequence[Family], work: Callable[[], None]) -> bool:
        """Does work on families; returns False, and reports them to `torn`, if it failed."""
        try:
            work()
        except Exception as problem:
            raise_interrupt_behind(problem)
            if self.torn is None:
                raise
            self.torn(families, problem)
            return False
        return True

    def _forget(self, host: Host) -> None:
        """Removes a host whose guests have all become inconsistent."""
        self._hosts.remove(host)
        self._known = []

    def _forget_all(self) -> None:
        """Removes all hosts, after their guests have received what was folded for them."""
        self._settle()
        self._known, self._changes, self._classes, self._hosts = [], [], [], []

    def leave(self, family: Family) -> None:
        """A family takes no more rows. If hosts hold rows, it is removed with the next batch."""
        if family in self._known and not any(host.holds_rows for host in self._hosts):
            self._forget_all()

    def _follow(self, families: list[Family]) -> None:
        """Makes new classes and hosts if families were added, removed or changed."""
        changes = [family.changes for family in families]
        if families == self._known and changes == self._changes:
            return
        self._forget_all()
        self._known, self._changes = list(families), changes
        by_columns: dict[frozenset[str], list[Expression]] = {}
        for family in families:
            if family.where is not None:
                columns = frozenset(column.name for column in family.where.columns())
                by_columns.setdefault(columns, []).append(family.where)
        self._classes = [SelectionClasses(clauses) for clauses in by_columns.values()]
        self._hosts = [Host(guests, self._classes) for guests in clusters(families) if len(guests) > 1]

    def folded_with(self, family: Family) -> FoldedWith | None:
        """The families with which the last rows of a family were folded, for reports; None if it folded for itself."""
        hosts = [] if self._apart else self._hosts
        return next((host.shared_by(family) for host in hosts if family in host.active), None)


def _fold_host(host: Host, rows: Rows, chosen: ChosenRows, hosted: set[int]) -> None:
    hosted |= host.fold(rows, chosen)


def _fold_family(family: Family, rows: Rows, chosen: ChosenRows) -> None:
    family.fold(rows, None if family.where is None else chosen.by(family.where))


def may_share(family: Family) -> bool:
    """Whether the family's states may be merged from partials of other groups and finer slices."""
    return family.timed and all(
        combines(key.kind.algebra) and key.kind.operation is not Operation.USER and not isinstance(key.kind, HeldKind)
        for key in family.states
    )


def clusters(families: Sequence[Family]) -> list[list[Family]]:
    """Clusters of families that one host can serve: one family groups by all keys of the others in its cluster.

    A family that fits into several clusters goes to the one with the fewest keys, which has the fewest groups.
    """
    sharing = sorted((family for family in families if may_share(family)), key=lambda family: -len(family.keys))
    found: list[tuple[frozenset[str], list[Family]]] = []
    for family in sharing:
        names = frozenset(map(key_name, family.keys))
        around = [cluster for cluster in found if names <= cluster[0]]
        if around:
            min(around, key=lambda cluster: len(cluster[0]))[1].append(family)
        else:
            found.append((names, [family]))
    return [guests for _, guests in found]


@dataclass
class Guest:
    """A family, the part of the host's partials that it merges, and its pause, during which it folds for itself."""

    family: Family
    places: list[int]  # the positions of its keys among the host's keys
    classes: int | None  # the number of the SelectionClasses with its WHERE
    columns: list[str]  # the columns of partials with its states
    rest: Rest = field(default_factory=Rest)
    partials: int = 0  # merged at the last `settle`
    rows: int = 0  # in these partials


class Host:
    """A family that folds for its guests. After `settle` it holds nothing."""

    def __init__(self, families: list[Family], classes: list[SelectionClasses]) -> None:
        keys = {key_name(key): key for family in families for key in family.keys}
        clauses = {family.where for family in families}
        self.classes = [found for found in classes if not clauses.isdisjoint(found.clauses)]
        class_columns = [ColumnRef(BIGINT, _CLASS.format(number)) for number in range(len(self.classes))]
        self.keys = tuple(keys.values())
        states = list(dict.fromkeys(key for family in families for key in family.states))
        self._family = _folding_family((*self.keys, *class_columns), states)
        read = [*self.keys, *(argument for key in states for argument in key.arguments)]
        self._columns = {column.name for expression in read for column in expression.columns()}
        names = list(keys)
        self._guests = [self._guest(family, names) for family in families]
        self._batch = 0
        self._served: list[Guest] = []  # the guests for which it folds the current batches
        self._batches = self._rows = self._folded = 0  # since the last `settle`
        self._rest = Rest()
        self._paid = False  # whether it saved costs at the last `settle`
        self._came = 1  # rows at the last `settle`

    @property
    def guests(self) -> list[Family]:
        return [guest.family for guest in self._guests]

    @property
    def selection_count(self) -> int:
        """The number of distinct WHERE clauses of the active guests."""
        return len({family.where for family in self.active if family.where is not None})

    @property
    def shown(self) -> str:
        """What a guest shares with the others, as text."""
        parts = [counted(len(self.active) - 1, "other family")]
        if self.keys:
            parts.append(f"by {', '.join(map(to_sql, self.keys))}")
        if self.selection_count:
            parts.append(f"by which of {self.selection_count} selections keep a row")
        return " ".join(parts)

    def shared_by(self, family: Family) -> FoldedWith:
        """What an active guest shares, and how many partials per row it merges."""
        guest = next(guest for guest in self._guests if guest.family is family)
        return FoldedWith(self.shown, len(self.active), tuple(self._family.states), guest.partials / self._came)

    @property
    def active(self) -> list[Family]:
        """The guests that merged partials at the last `settle`."""
        return [guest.family for guest in self._guests if guest.partials]

    def _guest(self, family: Family, names: list[str]) -> Guest:
        number = None
        if family.where is not None:
            number = next(i for i, classes in enumerate(self.classes) if family.where in classes.clauses)
        fields = {key: range(key.kind.int_fields + key.kind.float_fields) for key in family.states}
        columns = [f"{key.name}_{field}" for key, places in fields.items() for field in places]
        return Guest(family, [names.index(key_name(key)) for key in family.keys], number, columns)

    def fold(self, rows: Rows, by_clause: ChosenRows) -> set[int]:
        """Folds rows for the guests that are not pausing; returns the ids of their families."""
        if not self._rows:
            self._batch += 1
            self._served = [guest for guest in self._guests if guest.rest.is_over(self._batch)]
            if not self._rest.is_over(self._batch) or len(self._served) < 2:
                self._served = []
            for guest in self._guests:
                guest.partials = 0
            if self._served:
                self._family.follow_edges([guest.family for guest in self._served])
        if not self._served:
            return set()
        chosen = self._chosen(rows, [by_clause.classes(classes) for classes in self.classes])
        for guest in self._served:
            guest.family.notice(rows.times, rows.latest)
        if len(chosen):
            self._family.fold(chosen)
        self._batches += 1
        self._rows += len(rows)
        self._folded += len(chosen)
        return {id(guest.family) for guest in self._served}

    def settle(self) -> None:
        """Gives the guests what was folded for them since the last call."""
        if not self._rows:
            return
        partials = self._family.take_partials()
        if partials is not None:
            for guest in self._served:
                self._hand_over(partials, guest)
        self._judge(self._rows, self._folded, self._served)
        self._came = self._rows
        self._batches = self._rows = self._folded = 0

    def _chosen(self, rows: Rows, found: list[Ints]) -> Rows:
        """The rows that some guest keeps, with the columns to fold and their classes."""
        names = [name for name in rows.batch.schema.names if name in self._columns]
        columns = [rows.batch.column(name) for name in names]
        columns += [wrapped(classes) for classes in found]
        names += [_CLASS.format(number) for number in range(len(found))]
        if not columns:  # no column is read, but rows are counted
            columns, names = [wrapped(np.zeros(len(rows), np.int8))], ["row"]
        whole = Rows(pa.RecordBatch.from_arrays(columns, names=names), rows.times, rows.arrived, rows.ascends)
        if any(guest.classes is None for guest in self._served):
            return whole
        kept = np.zeros(len(rows), np.bool_)
        for classes, numbers in zip(self.classes, found, strict=True):
            wheres = [guest.family.where for guest in self._served]
            by_class = [classes.kept_by(where) for where in wheres if where in classes.clauses]
            if by_class:
                kept |= np.logical_or.reduce(by_class, axis=0)[numbers]
        return whole if kept.all() else whole.take(kept)

    def _hand_over(self, partials: pa.RecordBatch, guest: Guest) -> None:
        """Merges a guest's part of the partials into its slices."""
        columns = {name: partials.column(name) for name in (START, END)}
        for i, place in enumerate(guest.places):
            columns[f"key_{i}"] = partials.column(f"key_{place}")
        there = set(partials.schema.names)
        columns |= {name: partials.column(name) for name in guest.columns if name in there}
        part = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        if guest.classes is not None:
            assert guest.family.where is not None
            by_class = self.classes[guest.classes].kept_by(guest.family.where)
            numbers = partials.column(f"key_{len(self.keys) + guest.classes}")
            kept = by_class[integers(numbers.dictionary)][np.asarray(numbers.indices)]
            if not kept.all():
                part = part.take(wrapped(np.flatnonzero(kept)))
        guest.partials = part.num_rows
        guest.rows = int(integers(part.column(f"{ROW_COUNT.name}_0")).sum())
        guest.family.merge(part, finer=True)

    def _judge(self, rows: int, folded: int, guests: list[Guest]) -> None:
        """Compares costs: guests that lost begin a pause, and all do if the gains do not cover the cost of the host."""
        saved = -MARGIN * folded * (fold_ns(self._family) + TAKE_NS) - rows * sum(map(class_ns, self.classes))
        for guest in guests:
            gain = self._gain_of(guest, rows)
            if gain < 0:
                guest.rest.begin(self._batch)
            else:
                guest.rest.gained()
                saved += gain
        self._paid = saved >= 0
        if self._paid:
            self._rest.gained()
        else:
            self._rest.begin(self._batch)

    def _gain_of(self, guest: Guest, rows: int) -> float:
        """The cost for a guest of folding for itself, minus its cost of merging."""
        classes = None if guest.classes is None else self.classes[guest.classes]
        alone = alone_ns(guest.family, rows, guest.rows, classes)
        # In a trial, with few rows, the fixed costs of calls are ignored.
        calls = 0.0 if rows <= TRIAL_ROWS else GUEST_NS - self._batches * BATCH_NS
        return alone - calls - guest.partials * merge_ns(guest.family)

    @property
    def holds_rows(self) -> bool:
        """Whether its guests have not received yet what it folded for them."""
        return self._rows > 0

    @property
    def untried(self) -> bool:
        """Whether it folds the next batch without knowing whether that saves costs."""
        return not self._rows and self._rest.is_over(self._batch + 1) and not self._paid


def _folding_family(keys: tuple[Expression, ...], states: list[StateKey]) -> Family:
    """A family without members, which keeps states for others."""
    family = Family(keys, None, folds_only=True)
    family.keep_states(dict.fromkeys([ROW_COUNT, *states]))
    return family

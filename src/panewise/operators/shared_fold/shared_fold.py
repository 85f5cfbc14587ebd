"""Rows folded once for several families: queries that differ in WHERE, or group by some of the keys of others.

Families over one stream that keep their states by slices of time are *guests* of a common *host*, a family that only
folds. It groups by all that any guest tells apart: the guests' keys, and the class of the row, which says whose WHERE
keeps it (`selection_classes.py`). Its slices are cut at every guest's edges. After each batch its partials, of which
there are far fewer than rows, are handed to the guests, which merge those of their classes and forget the keys that
they do not group by; the host keeps nothing. Of batches that belong together the partials are handed over after the
last.

    rows -> classes -> group ids -> slots -> fold                  | once for all guests
    partials of the guest's classes -> its groups -> its slices    | per guest, in proportion to its partials

Invariant: each guest is as if it had folded the rows that its WHERE keeps itself, because its states combine in any
order and a slice of the host lies within one slice of each guest. States for which that is not so (user-defined ones,
values of no fixed size) are folded by their family.

Cost decides, anew for each batch: a guest for which merging partials was dearer than folding its rows folds for itself
for a while, and so do all where what they save is less than what the host costs. Golab 2006, section 8.3; the roll-up
of groupings is the rule that it leaves to others.
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

ROWS_LEAST = 4096  # of a batch; fewer are not worth a second table of groups
MARGIN = 1.25  # by which a host must be cheaper than it seems
TRIAL_ROWS = 8192  # with which a host is tried before it gets all
BATCH_NS, GUEST_NS = 120_000.0, 200_000.0  # a batch that a family folds for itself; a guest, each time
_CLASS = "\0class_{}"  # a column that no statement can name


class SharedFold:
    """Folds the rows of one stream for its families. It knows no family that was not there at the last batch."""

    def __init__(self) -> None:
        self._known: list[Family] = []
        self._changes: list[int] = []  # of each of them, when classes and hosts were made
        self._classes: list[SelectionClasses] = []
        self._hosts: list[Host] = []
        self._settled = True  # Whether batches that belong together begin with the next one.
        self._apart = True  # Whether each family has folded those that came last for itself.
        # Told of the families that an error has torn, while the others go on; None: it is raised.
        self.torn: Callable[[Sequence[Family], Exception], None] | None = None

    def fold(self, rows: Rows, families: list[Family], masks: Mapping[Expression, Mask] | None = None) -> None:
        """Rows enter all families, some of them at the next `settle`, which must follow before anybody asks a family.

        `masks` says of some WHERE clauses which rows they keep.
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
        """All families have all rows that were folded."""
        self._settle()
        self._settled = True

    def _settle(self) -> None:
        for host in list(self._hosts):
            if not self._done(host.guests, host.settle):
                self._forget(host)

    def _done(self, families: Sequence[Family], work: Callable[[], None]) -> bool:
        """Whether work on families is done; otherwise they are torn."""
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
        """All its guests are torn."""
        self._hosts.remove(host)
        self._known = []

    def _forget_all(self) -> None:
        """No host goes before its guests have got what it folded for them."""
        self._settle()
        self._known, self._changes, self._classes, self._hosts = [], [], [], []

    def leave(self, family: Family) -> None:
        """A family takes no rows any more. While hosts hold rows, it goes with the next batch."""
        if family in self._known and not any(host.holds_rows for host in self._hosts):
            self._forget_all()

    def _follow(self, families: list[Family]) -> None:
        """Families have come, gone or changed: so do classes and hosts."""
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
        """With whom the family's last rows were folded, for what people are told; None where for itself."""
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
    """Families that one host may serve: each with another one that groups by all its keys and perhaps more.

    A family with several such others goes to the one with the fewest keys, which has the fewest groups.
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
    """A family, what it takes of the host's partials, and when it rests from that: then it folds for itself."""

    family: Family
    places: list[int]  # of its keys among the host's
    classes: int | None  # the number of the classes that know its WHERE
    columns: list[str]  # of partials: those of its states
    rest: Rest = field(default_factory=Rest)
    partials: int = 0  # at the last settling
    rows: int = 0


class Host:
    """A family that folds for its guests. Nothing is in it once it is settled."""

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
        self._served: list[Guest] = []  # the guests of what it holds
        self._batches = self._rows = self._folded = 0  # since they got something last
        self._rest = Rest()
        self._paid = False  # when it was settled last
        self._came = 1  # rows that were settled last

    @property
    def guests(self) -> list[Family]:
        return [guest.family for guest in self._guests]

    @property
    def selection_count(self) -> int:
        """How many WHERE clauses its guests have between them."""
        return len({family.where for family in self.active if family.where is not None})

    @property
    def shown(self) -> str:
        """What one of its guests shares with the others, for people."""
        parts = [counted(len(self.active) - 1, "other family")]
        if self.keys:
            parts.append(f"by {', '.join(map(to_sql, self.keys))}")
        if self.selection_count:
            parts.append(f"by which of {self.selection_count} selections keep a row")
        return " ".join(parts)

    def shared_by(self, family: Family) -> FoldedWith:
        """What an active guest shares, and what it merges for it."""
        guest = next(guest for guest in self._guests if guest.family is family)
        return FoldedWith(self.shown, len(self.active), tuple(self._family.states), guest.partials / self._came)

    @property
    def active(self) -> list[Family]:
        """The guests that it served the last time."""
        return [guest.family for guest in self._guests if guest.partials]

    def _guest(self, family: Family, names: list[str]) -> Guest:
        number = None
        if family.where is not None:
            number = next(i for i, classes in enumerate(self.classes) if family.where in classes.clauses)
        fields = {key: range(key.kind.int_fields + key.kind.float_fields) for key in family.states}
        columns = [f"{key.name}_{field}" for key, places in fields.items() for field in places]
        return Guest(family, [names.index(key_name(key)) for key in family.keys], number, columns)

    def fold(self, rows: Rows, by_clause: ChosenRows) -> set[int]:
        """Folds for those guests for which it pays; says which."""
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
        """The guests get what was folded for them since the last time."""
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
        """The rows that some guest keeps, with the columns that are folded and the classes beside them."""
        names = [name for name in rows.batch.schema.names if name in self._columns]
        columns = [rows.batch.column(name) for name in names]
        columns += [wrapped(classes) for classes in found]
        names += [_CLASS.format(number) for number in range(len(found))]
        if not columns:  # nothing is read but that there is a row
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
        """A guest's part of the partials enters its slices."""
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
        """Whom it has paid for: guests that lost rest, and all do where those that gained have not paid the host."""
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
        """What a guest would have paid to fold for itself, less what it has paid to merge."""
        classes = None if guest.classes is None else self.classes[guest.classes]
        alone = alone_ns(guest.family, rows, guest.rows, classes)
        # A trial, with few rows, is not judged by what calls cost.
        calls = 0.0 if rows <= TRIAL_ROWS else GUEST_NS - self._batches * BATCH_NS
        return alone - calls - guest.partials * merge_ns(guest.family)

    @property
    def holds_rows(self) -> bool:
        """Whether its guests have yet to get what it folded for them."""
        return self._rows > 0

    @property
    def untried(self) -> bool:
        """Whether it folds again, and it is not known yet whether that pays."""
        return not self._rows and self._rest.is_over(self._batch + 1) and not self._paid


def _folding_family(keys: tuple[Expression, ...], states: list[StateKey]) -> Family:
    """A family without members, for states that others answer from."""
    family = Family(keys, None, folds_only=True)
    family.keep_states(dict.fromkeys([ROW_COUNT, *states]))
    return family

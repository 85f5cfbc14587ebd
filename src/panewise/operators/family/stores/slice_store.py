"""The contract of stores, which hold the slices of a family.

Rows are folded into open slices. Slices that the watermark has passed are closed, and answer windows until no window to
come needs them. There are two stores: in `dense_slices.py` every group has a place in every slice; in
`sparse_slices.py` slices list the groups they touch. Callers do not need to know which one they have.

    assign, fold, absorb    rows or partials enter open slices
    close                   slices that the watermark has passed become closed slices
    evict                   slices that no report needs are dropped
    reporting               what writes the reports of members from these slices
    with_room               the store gets room for more groups, or a sparse one takes its place
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray

from panewise.aggregates.matrix import NO_INTS, StateMatrix
from panewise.aggregates.states import UserStateKind
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from panewise.errors import raise_interrupt_behind
from panewise.operators.arguments import Arguments, ranks_of
from panewise.operators.family.groups import Groups
from panewise.operators.family.members import Members
from panewise.operators.family.partials import Drained
from panewise.operators.family.reporting import Reporting
from panewise.operators.family.sought_windows import Technique
from panewise.operators.family.stores.tree import Tree
from panewise.operators.family.timeline import Timeline
from panewise.operators.held.held_values import HeldValues
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import Pools, StateKey
from panewise.slicing.open_slices import OpenSlices
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet

Failures = list[tuple[StateKey, Exception]]


class SliceStore(ABC):
    """The slices of a family, open and closed. A store that does not answer only folds: it closes no slices.

    Closed slices are numbered; the oldest one held is number `first`. `starts` and `ends` have those held.
    """

    is_sparse: ClassVar[bool]  # which kind of store a snapshot names
    answers_past: ClassVar[bool]  # whether it can answer any window of the slices held, at any time

    def __init__(self, pools: Pools, answers: bool, width: int | None) -> None:
        self.pools = pools
        self.answering = answers
        self.open = OpenSlices(width)
        self.matrices: dict[StateKey, StateMatrix] = {}  # of open slices
        self.held = HeldValues(pools, answers)  # states without a fixed size
        self.trees: dict[int, Tree] = {}  # longer slices for some members, by number from 1 on

    @property
    def rows_span(self) -> tuple[int, int] | None:
        """Where the first slice held begins and the last one ends, open or closed; None if there are none."""
        spans = [(int(self.open.starts[0]), int(self.open.ends[-1]))] if self.open.count else []
        closed = self.closed_span
        spans += [closed] if closed is not None else []
        return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None

    @property
    @abstractmethod
    def closed_span(self) -> tuple[int, int] | None:
        """Where the first closed slice begins and the last one ends; None if there are none."""

    @property
    @abstractmethod
    def first(self) -> int: ...

    @property
    @abstractmethod
    def starts(self) -> Ints: ...

    @property
    @abstractmethod
    def ends(self) -> Ints: ...

    @property
    @abstractmethod
    def bytes_held(self) -> int: ...

    # -- members, states and groups ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def can_weave(self) -> bool:
        """Whether members may be divided into trees with slices of their own."""

    @abstractmethod
    def weave(self, trees: Sequence[Technique], own: Technique) -> None:
        """Makes new trees, numbered from 1, with a technique each; `own` is the technique of the store's own slices."""

    @abstractmethod
    def follow(self, windows: WindowSet) -> None:
        """Keeps exactly what these windows need."""

    @abstractmethod
    def add_state(self, key: StateKey) -> None:
        """Adds a state, which is at its identity in all existing slices."""

    @abstractmethod
    def drop_state(self, key: StateKey) -> None: ...

    @abstractmethod
    def with_room(self, groups: int, dense_most: int, windows: Iterable[Cadence]) -> SliceStore:
        """A store with room for this many groups: this one, or a sparse one if there are more than `dense_most`."""

    @abstractmethod
    def as_written(self, sparse: bool, windows: Iterable[Cadence]) -> SliceStore:
        """The store for a snapshot, sparse or not: this one, which must be fresh, or a sparse one in its place."""

    @abstractmethod
    def leave(self, tree: int, cadence: Cadence, window: int) -> None:
        """No member asks for this window again."""

    @abstractmethod
    def technique_of(self, tree: int, key: StateKey) -> str:
        """The name of the technique that keeps a state in a tree; tree 0 has the store's own slices."""

    @abstractmethod
    def touched(self, cadence: Cadence) -> list[Ints]:
        """The groups that a new member must judge at its first report; empty if every report judges all groups."""

    @abstractmethod
    def has_place(self, cadence: Cadence) -> bool:
        """Whether the slices held can answer a new window at once."""

    @abstractmethod
    def passed(self, cadence: Cadence, report: int) -> bool:
        """Whether the window's cursor has moved past a report, so that it cannot be answered any more."""

    @abstractmethod
    def turn_back(self, cadence: Cadence, report: int) -> None:
        """If the window's cursor has moved past a report, it begins again with the slices held."""

    @abstractmethod
    def live_groups(self) -> Ints | None:
        """The groups that some slice holds, ascending; None if all groups are needed."""

    @abstractmethod
    def regroup(self, kept: Ints, renamed: Ints) -> int:
        """Keeps only these groups, which are all that slices hold, under new numbers; returns the room for groups."""

    @abstractmethod
    def int_arrays(self, key: StateKey) -> list[Ints]:
        """The int64 fields of all arrays of a state, to be changed in place; unused places hold any value."""

    @abstractmethod
    def live_ints(self, key: StateKey) -> list[Ints]:
        """The int64 fields of a state without unused places, partly as copies."""

    def discard_trees(self) -> None:
        """The store's slices have changed: trees are rebuilt when they are next used."""
        for tree in self.trees.values():
            tree.discard()

    # -- rows and partials ---------------------------------------------------------------------------------------

    def assign(self, points: Ints, groups: Ints) -> Ints:
        """The slot of every row; valid until the next call."""
        return self.open.assign(points, groups)

    @abstractmethod
    def assign_alone(self, points: Ints, ascending: bool) -> Ints | None:
        """The slots of the rows of an ungrouped family, which are then counted already; None if the store cannot."""

    @abstractmethod
    def assign_known(self, points: Ints, words: Ints, base: int, direct: Ints) -> Ints:
        """The slots of the first rows, up to one with a new group or slice; these rows are then counted already."""

    @abstractmethod
    def note_nulls(self, arguments: Arguments) -> None:
        """Arguments with a NULL need a count of their own from now on; called before the rows are counted."""

    @abstractmethod
    def note_states(self, names: set[str]) -> None:
        """Partials with columns of these names will be merged; arguments that they count need their own counts."""

    def fold(self, slots: Ints, arguments: Arguments, rows: Rows, counted: Iterable[StateKey] = ()) -> Failures:
        """Folds rows into their slots, except into the states `counted`, which have them already."""
        self.fit()
        folded = {key: matrix for key, matrix in self.matrices.items() if key not in counted}
        if self.held.rooms:
            self.held.fold(*self.open.places(slots), arguments)
        return fold_states(folded, slots, arguments, rows, self.pools)

    def fit(self) -> None:
        """Gives every state as many slots as the open slices have."""
        for matrix in self.matrices.values():
            make_room(matrix, self.open.slots)

    def absorb(self, key: StateKey, slots: Ints, ints: Ints, floats: Floats) -> None:
        """Combines newer partials of a state with their slots, for which there is room already."""
        self.matrices[key].combine_at(slots, ints, floats, ranks_of(key, self.pools))

    @abstractmethod
    def drain(self) -> Drained:
        """The partials of all open slices, which are then empty."""

    # -- time ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def close(self, watermark: int) -> None:
        """Closes the open slices that end at the watermark or before."""

    @abstractmethod
    def evict(self, before: int) -> None:
        """Evicts the slices numbered below `before`."""

    @abstractmethod
    def reporting(self, members: Members, timeline: Timeline, groups: Groups) -> Reporting:
        """A new object that writes the reports of these members."""

    # -- snapshots -----------------------------------------------------------------------------------------------

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None:
        """The states must have been added already; they take the order of the snapshot."""

    def _restore_open(self, snapshot: dict[str, Any]) -> None:
        """Restores open slices, their states in the order of the snapshot, and states without a fixed size."""
        self.open.restore(snapshot["open"])
        self.held.restore(snapshot["held"])
        by_name = {key.written: key for key in self.matrices}
        self.matrices = {by_name[name]: self.matrices[by_name[name]] for name in snapshot["states"]}
        for (key, matrix), ints, floats in zip(
            self.matrices.items(), snapshot["ints"], snapshot["floats"], strict=True
        ):
            matrix.ints = state_matrix(ints, key.kind.int_fields, self.open.slots)
            matrix.floats = state_matrix(floats, key.kind.float_fields, self.open.slots)


def fold_states(
    matrices: dict[StateKey, StateMatrix], slots: Ints, arguments: Arguments, rows: Rows, pools: Pools
) -> Failures:
    """Folds rows into their slots; returns the user-defined states whose functions raised, with the exceptions."""
    failed: Failures = []
    for key, matrix in matrices.items():
        try:
            arrivals = rows.arrivals if key.ordered else NO_INTS
            matrix.fold(slots, arguments.of(key), rows.times, arrivals, ranks_of(key, pools))
        except Exception as problem:
            raise_interrupt_behind(problem)
            if not isinstance(key.kind, UserStateKind):
                raise
            failed.append((key, problem))
    return failed


def make_room(matrix: StateMatrix, slots: int) -> None:
    """Gives the matrix at least this many slots; new slots are at the identity."""
    if matrix.slots < slots:
        larger = matrix_of(matrix.kind, slots)
        larger.ints[:, : matrix.ints.shape[1]] = matrix.ints
        larger.floats[:, : matrix.floats.shape[1]] = matrix.floats
        matrix.ints, matrix.floats = larger.ints, larger.floats


def state_matrix(flat: NDArray[Any], fields: int, slots: int) -> NDArray[Any]:
    """A state matrix from its flat copy."""
    return flat.reshape(fields, slots).copy()

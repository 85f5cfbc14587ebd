"""What a family asks of its slices, however they are kept: the contract of stores.

Rows are folded into open slices; slices that the watermark has passed are closed, and answer windows until no window to
come needs them. Two stores do it: `dense_slices.py`, in which every group has a place in every slice, and
`sparse_slices.py`, whose slices list the groups they touch. Who has a store does not ask which it is.

    assign, fold, absorb    rows or partials enter open slices
    close, evict            the watermark passes a slice; nobody needs it any more
    reporting               who writes the reports of members out of these slices
    with_room               the same store, wider, or another one that holds so many groups better
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
    """The slices of a family, open and closed. One that does not answer only folds: none is ever closed.

    Closed slices have numbers, `first` and on; `starts` and `ends` are those held.
    """

    is_sparse: ClassVar[bool]  # as which it is written down
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
        """Where the first slice held begins, and where the last one ends; None where there is none."""
        spans = [(int(self.open.starts[0]), int(self.open.ends[-1]))] if self.open.count else []
        closed = self.closed_span
        spans += [closed] if closed is not None else []
        return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None

    @property
    @abstractmethod
    def closed_span(self) -> tuple[int, int] | None:
        """The same of closed slices."""

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
        """Fresh trees, numbered from 1 on, each kept by a technique; the store's own slices by `own`."""

    @abstractmethod
    def follow(self, windows: WindowSet) -> None:
        """Keeps what these windows need, and nothing that only others did."""

    @abstractmethod
    def add_state(self, key: StateKey) -> None:
        """A state that slices hold from now on; those that exist have its identity."""

    @abstractmethod
    def drop_state(self, key: StateKey) -> None: ...

    @abstractmethod
    def with_room(self, groups: int, dense_most: int, windows: Iterable[Cadence]) -> SliceStore:
        """This store with room for so many groups, or the one that it has become; `dense_most` is for dense slices."""

    @abstractmethod
    def as_written(self, sparse: bool, windows: Iterable[Cadence]) -> SliceStore:
        """A fresh store becomes a sparse one, or stays as it is, for what was written down of one."""

    @abstractmethod
    def leave(self, tree: int, cadence: Cadence, window: int) -> None:
        """A member's window will not be asked for again."""

    @abstractmethod
    def technique_of(self, tree: int, key: StateKey) -> str:
        """By what a state is kept in a tree; 0 has the store's own slices."""

    @abstractmethod
    def touched(self, cadence: Cadence) -> list[Ints]:
        """The groups that a new member finds changed at its first report, where only those that did are judged."""

    @abstractmethod
    def has_place(self, cadence: Cadence) -> bool:
        """Whether a new window can be answered at once from the slices held."""

    @abstractmethod
    def passed(self, cadence: Cadence, report: int) -> bool:
        """Whether what is kept for the window has gone past a report, and does not turn back."""

    @abstractmethod
    def turn_back(self, cadence: Cadence, report: int) -> None:
        """What is kept for a window that has gone past a report begins anew with the slices held."""

    @abstractmethod
    def live_groups(self) -> Ints | None:
        """The groups that some slice holds, ascending; None where all of them are needed."""

    @abstractmethod
    def regroup(self, kept: Ints, renamed: Ints) -> int:
        """Keeps only these groups, which are all that slices hold, under new numbers. For how many there is room."""

    @abstractmethod
    def int_arrays(self, key: StateKey) -> list[Ints]:
        """The int64 fields of all arrays of a state which cannot be taken away; places not in use hold anything."""

    @abstractmethod
    def live_ints(self, key: StateKey) -> list[Ints]:
        """The same for what is in use alone, in part as copies."""

    def discard_trees(self) -> None:
        """What trees hold is no longer what the slices here say."""
        for tree in self.trees.values():
            tree.discard()

    # -- rows and partials ---------------------------------------------------------------------------------------

    def assign(self, points: Ints, groups: Ints) -> Ints:
        """The slot of every row, until the next call."""
        return self.open.assign(points, groups)

    @abstractmethod
    def assign_alone(self, points: Ints, ascending: bool) -> Ints | None:
        """The slots of rows where there is one group; they are counted already. None where there is no such way."""

    @abstractmethod
    def assign_known(self, points: Ints, words: Ints, base: int, direct: Ints) -> Ints:
        """The slots of the first rows, as many as have a known group and a slice at hand; they are counted already."""

    @abstractmethod
    def note_nulls(self, arguments: Arguments) -> None:
        """Before rows are counted: arguments with NULLs among them need counts of their own from now on."""

    @abstractmethod
    def note_states(self, names: set[str]) -> None:
        """Partials come with columns of these names: what they count apart is counted apart from now on."""

    def fold(self, slots: Ints, arguments: Arguments, rows: Rows, counted: Iterable[StateKey] = ()) -> Failures:
        """Rows enter their slots; some states have counted them already."""
        self.fit()
        folded = {key: matrix for key, matrix in self.matrices.items() if key not in counted}
        if self.held.rooms:
            self.held.fold(*self.open.places(slots), arguments)
        return fold_states(folded, slots, arguments, rows, self.pools)

    def fit(self) -> None:
        """Every state follows the open slices, which may have come to have more slots."""
        for matrix in self.matrices.values():
            make_room(matrix, self.open.slots)

    def absorb(self, key: StateKey, slots: Ints, ints: Ints, floats: Floats) -> None:
        """Newer partials of a state enter their slots, for which there is room already."""
        self.matrices[key].combine_at(slots, ints, floats, ranks_of(key, self.pools))

    @abstractmethod
    def drain(self) -> Drained:
        """The partials of all open slices, which are forgotten."""

    # -- time ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def close(self, watermark: int) -> None:
        """Slices that end at the watermark or before are open no longer."""

    @abstractmethod
    def evict(self, before: int) -> None:
        """Forgets the slices numbered below `before`."""

    @abstractmethod
    def reporting(self, members: Members, timeline: Timeline, groups: Groups) -> Reporting:
        """Who writes the reports of these members."""

    # -- snapshots -----------------------------------------------------------------------------------------------

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None:
        """The states must have been added already; they take the order of the snapshot."""


def fold_states(
    matrices: dict[StateKey, StateMatrix], slots: Ints, arguments: Arguments, rows: Rows, pools: Pools
) -> Failures:
    """Rows enter their slots; returns the states of users whose functions raised, with what they raised."""
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
    """The matrix has at least so many slots, those that are new at the identity."""
    if matrix.slots < slots:
        larger = matrix_of(matrix.kind, slots)
        larger.ints[:, : matrix.ints.shape[1]] = matrix.ints
        larger.floats[:, : matrix.floats.shape[1]] = matrix.floats
        matrix.ints, matrix.floats = larger.ints, larger.floats


def state_matrix(flat: NDArray[Any], fields: int, slots: int) -> NDArray[Any]:
    """A flat copy of a state matrix in its shape again."""
    return flat.reshape(fields, slots).copy()

"""The programs that this process has read: one for each folder, to which it adds the changes written since.

A change is bound and planned once per process. Reading a program again costs a listing of files and a copy.
`add_change` writes a change and adds it here, so that it is never read back.

A file of a change is written once. But a start that fails removes its change, and the next change of that number has
other content. So the size and time of every applied file are kept: if one has changed or is gone, or if the aggregates
differ, the program is read anew.

A worker gets a `Reference`, which says how many changes count. Workers keep a program for each run, because the
functions of the user's aggregates come with the tasks of a run.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from panewise.aggregates.aggregate_functions import AggregateFunction
from panewise.engine.books.made_queries import MadeQueries
from panewise.language import statements as s
from panewise.spark.environment.folder import FileStamp, Folder
from panewise.spark.program.changes import Change, read_change, write_change
from panewise.spark.program.program import Program
from panewise.spark.program.reference import Reference
from panewise.spark.program.version import Version

FOLDERS_KNOWN = 8


@dataclass
class _Known:
    program: Program
    stamps: list[FileStamp] = field(default_factory=list)  # of the applied files


_known: OrderedDict[str, _Known] = OrderedDict()  # by folder
_of_runs: OrderedDict[tuple[str, int], Program] = OrderedDict()  # by name of the run, and partitions
_lock = threading.RLock()


def read_program(
    folder: Folder,
    partitions: int,
    aggregates: Mapping[str, AggregateFunction],
    sharing: str = "weave",
    made: MadeQueries | None = None,
) -> Program:
    """The program of all changes so far, for the caller to change.

    `made` has the queries that the caller has bound and planned. It gets those that are known here too.
    """
    with _lock:
        stamps = folder.stamps("catalog")
        known = _known.pop(folder.place, None)
        if known is None or not _goes_on(known, stamps, partitions, aggregates, sharing):
            known = _Known(Program(partitions, sharing=sharing))
        known.program.aggregates = dict(aggregates)
        if made is not None:
            known.program.made.take(made)
        for stamp in stamps[len(known.stamps) :]:
            known.program.apply(read_change(folder, stamp.number))
            known.stamps.append(stamp)
        _remember(folder, known)
        program = known.program.copy()
        program.made = made or MadeQueries()
        program.made.take(known.program.made)
    program.aggregates = aggregates  # not a copy: the caller may add to them
    return program


def add_change(folder: Folder, program: Program, change: Change, bound: Sequence[s.Statement | None] = ()) -> Change:
    """Applies a change to a program from `read_program` and writes it; returns it with what was decided."""
    change = program.apply(change, bound)
    write_change(folder, change)
    with _lock:
        stamps = folder.stamps("catalog")
        known = _known.get(folder.place)
        if known is not None and known.stamps == stamps[:-1] and stamps[-1].number == change.version:
            own = program.copy()
            own.aggregates, own.made = dict(program.aggregates), _copy(program.made)
            _remember(folder, _Known(own, stamps))
    return change


def program_of(reference: Reference) -> Program:
    """The program with all changes that a reference counts. Reads only those that are new since the last call."""
    with _lock:
        key = reference.pipeline, reference.partitions
        program = _of_runs.pop(key, None)
        if program is None:
            program = Program(reference.partitions, reference.aggregates, reference.sharing)
        if program.next_version < reference.changes:
            program.aggregates = reference.aggregates
            for number in range(program.next_version, reference.changes):
                program.apply(read_change(reference.folder, number))
        hold(reference, program)
        return program


def versions_of(reference: Reference) -> list[Version]:
    """The versions of the changes that a reference counts."""
    return [version for version in program_of(reference).versions if version.number < reference.changes]


def hold(reference: Reference, program: Program) -> None:
    """Keeps a program with all changes of a reference, for `program_of`."""
    with _lock:
        _of_runs[reference.pipeline, reference.partitions] = program
        while len(_of_runs) > FOLDERS_KNOWN:
            _of_runs.popitem(last=False)


def _copy(made: MadeQueries) -> MadeQueries:
    """A copy, because what is kept here must change only under the lock."""
    found = MadeQueries()
    found.take(made)
    return found


def _remember(folder: Folder, known: _Known) -> None:
    _known[folder.place] = known
    _known.move_to_end(folder.place)
    while len(_known) > FOLDERS_KNOWN:
        _known.popitem(last=False)


def _goes_on(
    known: _Known,
    stamps: list[FileStamp],
    partitions: int,
    aggregates: Mapping[str, AggregateFunction],
    sharing: str,
) -> bool:
    program = known.program
    made_for = program.partitions, program.sharing
    # Aggregates that were added since do not concern the changes that were applied.
    own = {name: aggregates.get(name) for name in program.aggregates}
    return (
        made_for == (partitions, sharing) and own == program.aggregates and known.stamps == stamps[: len(known.stamps)]
    )

"""A bucket: the operators of a fragment in one place, fed by what the tasks of stage 1 send.

It is the embedded engine's hosting over a channel of its own. Stage 2 keeps one per bucket and merges partials or takes
rows; stage 1 keeps one per tree fragment, folds rows in it and takes the partials out. Both walk through the same
versions with the same points, so that both cut slices at the same edges.

A bucket of a tree fragment holds all its trees. A tree is cut when its own queries change, and only then. It begins
with its first query, also in a bucket that has long been there: it has not seen the rows before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.catalog import StreamDefinition
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import cadence_of
from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.engine.hosting.query_registry import QueryRegistry
from panewise.engine.ingest.watermark import Watermark
from panewise.engine.ingest.window_limit import WINDOWS_CLOSED_MAX
from panewise.errors import NotHeldError, PlanError
from panewise.operators.family.family import Family
from panewise.operators.row_batch import Rows, concatenated
from panewise.plan.physical_plan import Difference, PhysicalPlan, PhysicalQuery, Planned
from panewise.slicing.window_set import WindowSet
from panewise.spark.program.program import Program
from panewise.spark.program.version import Fragment, PlannedQuery, Version
from panewise.spark.tables.table_log import FollowedTable, PinnedTables, TableChange
from panewise.spark.tasks.batch_progress import Marks
from panewise.spark.tasks.packing import Packet
from panewise.temporal import Window, format_instant


@dataclass(frozen=True)
class TreePart:
    """Partials of one tree; `base`: how many rows had arrived before those that they count."""

    tree: int
    partials: pa.RecordBatch
    base: int


class BucketChannel(Channel):
    """A stream as a bucket sees it. `begun_at`: rows before it, if any, went by before who begins now was there."""

    def __init__(self, stream: StreamDefinition) -> None:
        super().__init__(stream.name, stream.schema, stream.timestamp)
        self.version = -1  # the one whose queries are being hosted

    @property
    def moment(self) -> object:
        """Queries of one version come together, also in a bucket that is made anew later on."""
        return self.version

    @property
    def held_from(self) -> int | None:
        held = super().held_from
        if self.begun_at is None:
            return held
        return self.begun_at if held is None else max(held, self.begun_at)


class Inflow:
    """What comes from one stream: its channel, how far it has come, and how many rows there were in all tasks."""

    def __init__(self, stream: StreamDefinition) -> None:
        self.channel = BucketChannel(stream)
        self.progress = Watermark(stream.delay_us)
        self.arrived = 0

    def snapshot(self) -> dict[str, Any]:
        return {
            "begun_at": self.channel.begun_at,
            "arrived": self.arrived,
            "progress": self.progress.snapshot(),
            "channel": self.channel.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.channel.begun_at = snapshot["begun_at"]
        self.arrived = snapshot["arrived"]
        self.progress.restore(snapshot["progress"])
        self.channel.restore(snapshot["channel"])


class Bucket:
    """Queries of one fragment, hosted as in the embedded engine. A tree fragment has one stream, the others any."""

    def __init__(self, program: Program, fragment: Fragment, version: Version, folds_only: bool = False) -> None:
        self.program = program
        self.fragment = fragment
        self.version = -1
        self.inflows = {key: Inflow(version.streams[key]) for key in fragment.streams}
        self.main = self.inflows[fragment.stream]
        self.main.channel.folds_only = folds_only
        self.hosting = QueryRegistry(self._channel_of, program.sharing, self._table_of)
        self.tables: dict[str, FollowedTable] = {}  # that its queries read
        self.merged: list[TreePart] = []  # the partials of this micro-batch
        self.table_changes: dict[str, TableChange] = {}  # those of this micro-batch
        self.limited: dict[str, str] = {}  # the queries that failed in this micro-batch by its span, and why
        self._consumers: dict[int, FamilyConsumer] = {}  # by tree
        self._tree_of: dict[str, int] = {}  # by query that is hosted in a tree

    def _channel_of(self, name: str) -> Channel:
        query = self.hosting.queries.get(name.lower())
        if query is None:
            found = (i.channel for i in self.inflows.values() if i.channel.name.lower() == name.lower())
            return next(found)
        query.stand_apart()  # somebody wants its results as they come
        return query

    def _table_of(self, name: str) -> FollowedTable:
        version = self.program.version(self.main.channel.version)
        key = version.table_key(name)
        return self.tables.setdefault(key, FollowedTable(version.tables[key]))

    @property
    def trees(self) -> dict[int, Family]:
        """The trees by number, also those whose queries have all failed."""
        return {number: consumer.family for number, consumer in self._consumers.items()}

    def tree_of(self, consumer: FamilyConsumer) -> int:
        """The number of a family's tree; 0 where the fragment has none."""
        return next((number for number, known in self._consumers.items() if known is consumer), 0)

    # -- versions ------------------------------------------------------------------------------------------------

    def go_on_in(self, program: Program) -> bool:
        """Whether it is what another program makes of its version; it follows that program then."""
        if program is not self.program:
            fragment = program.fragments.get(self.fragment.number)
            if self.version < 0 or fragment is None or program.sharing != self.program.sharing:
                return False
            here = self.program.plan_of(self.fragment, self.program.version(self.version))
            if program.plan_of(fragment, program.version(self.version)) != here:
                return False
            self.program, self.fragment = program, fragment
        return True

    def goes_on_until(self, version: int) -> bool:
        """Whether no version up to this one changes anything here: then `become` touches no state."""
        return self.version <= version and not self.program.concerns(self.fragment, self.version, version)

    def become(self, version: Version, marks: Marks) -> None:
        """Queries come and go as the versions up to this one say."""
        for step in self.program.between(self.version, version.number):
            self._step(step, marks)
        self.version = version.number

    def _step(self, version: Version, marks: Marks) -> None:
        wanted = version.hosted(self.fragment)
        hosted = self.hosting.queries
        plan = PhysicalPlan({name: Planned(query.node, query.created) for name, query in wanted.items()})
        difference = plan.difference(self.hosting.plan)
        if difference.going or difference.coming:
            for inflow in self.inflows.values():
                inflow.channel.version = version.number
            if self.fragment.tree:
                reached, _ = marks.at(version.number, self.fragment.stream)
                self._change_trees(difference, wanted, reached)
            else:
                self._change_rows(difference, version, marks)
        for name, query in wanted.items():
            if name in hosted and hosted[name].status != "FAILED":
                if query.suspended:
                    hosted[name].suspend()
                else:
                    hosted[name].resume()

    def _change_rows(self, difference: Difference, version: Version, marks: Marks) -> None:
        for stream, inflow in self.inflows.items():
            if not self.hosting.queries and inflow.channel.watermark == INT64_MIN:
                reached, rows = marks.at(version.number, stream)
                inflow.channel.begun_at = None if reached is None else reached + 1
                inflow.channel.rows_seen = rows  # they are numbered from the beginning of the stream on
        self._change(Difference(difference.going))
        for name, query in difference.coming.items():
            # One by one: whether all rows were counted matters to those that read it.
            self._change(Difference(coming={name: query}))
            moved = any(marks.at(query.created, stream) != marks.at(version.number, stream) for stream in self.inflows)
            if moved:
                self.hosting.queries[name].count_not_all()

    def _change_trees(self, difference: Difference, wanted: dict[str, PlannedQuery], reached: int | None) -> None:
        """The trees of these queries are cut behind the last row that any task has seen; no others."""
        coming = [wanted[name] for name in difference.coming]
        touched = {self._tree_of.pop(name) for name in difference.going} | {query.tree for query in coming}
        channel = self.main.channel
        # A tree begins with its first query; one that is there goes by what it knows.
        channel.begun_at = None if reached is None else reached + 1
        channel.cut = cut = INT64_MIN if reached is None else reached + 1
        self._change(difference)
        for query in coming:
            self._tree_of[query.name] = query.tree
            consumer = self.hosting.family_of(query.name)
            if consumer is None:
                continue  # refused
            held = self._consumers.get(query.tree)
            assert held is None or held.torn or held is consumer
            self._consumers[query.tree] = consumer
        windows: dict[int, list[Window]] = {number: [] for number in touched}
        for query in wanted.values():
            if query.tree in touched and query.block.window is not None:
                windows[query.tree].append(query.block.window)
        for number, found in windows.items():
            if not found:
                self._consumers.pop(number, None)
            elif number in self._consumers:
                # Edges follow from the version alone, not from which queries have failed here meanwhile.
                self._consumers[number].family.cut_from(cut, WindowSet(map(cadence_of, found)))

    def _change(self, difference: Difference) -> None:
        self.hosting.change(difference, self._refused)
        for hosted in self.hosting.queries.values():
            hosted.keep_all_unread()  # everything is read after every micro-batch

    def _refused(self, name: str, node: PhysicalQuery, problem: PlanError) -> HostedQuery:
        """A row came between the statement and its micro-batch: too late for what needs all rows."""
        hosted = HostedQuery(name, node.plan, node.block)
        hosted.fail_alone(problem.message)
        return hosted

    def fail(self, name: str, reason: str) -> None:
        """Another task or bucket has found that a query cannot go on."""
        query = self.hosting.queries.get(name)
        if query is None or query.status == "FAILED":
            return
        query.fail_alone(reason)
        consumer = self.hosting.consumers.get(name)
        if consumer is not None:
            consumer.let_go(name)

    # -- what comes in -------------------------------------------------------------------------------------------

    def see(self, tables: PinnedTables) -> None:
        """The tables come to the versions of this micro-batch."""
        self.tables = {key: table for key, table in self.tables.items() if table.is_read}
        found = {key: tables.change(key, table) for key, table in self.tables.items()}
        self.change_tables({key: change for key, change in found.items() if change is not None})

    def change_tables(self, changes: dict[str, TableChange]) -> None:
        self.table_changes = changes
        for key, change in changes.items():
            if key in self.tables:
                self.tables[key].go_to(change)

    def take(self, packets: list[Packet]) -> None:
        """What the tasks of a micro-batch have sent, in order; then the watermark of each stream moves once."""
        rows: dict[str, list[Rows]] = {stream: [] for stream in self.inflows}
        self.merged = []
        for packet in packets:
            inflow = self.inflows[packet.stream]
            for name, reason in (packet.failed or {}).items():
                self.fail(name, reason)
            if packet.greatest is not None:
                inflow.progress.greatest = max(inflow.progress.greatest, packet.greatest)
            if packet.floor is not None:
                inflow.progress.advance(packet.floor)
            self._note(packet.notes or {})
            for number, partials in packet.parts.items():
                if number in self._consumers and not self._consumers[number].torn:
                    self._consumers[number].family.merge(partials, inflow.arrived)
                    self.merged.append(TreePart(number, partials, inflow.arrived))
            if packet.batch is not None:
                rows[packet.stream].append(_rows_of(packet.batch, inflow.channel, inflow.arrived))
            inflow.arrived += packet.rows
        for stream, inflow in self.inflows.items():
            come = concatenated(rows[stream]) if rows[stream] else inflow.channel.empty_rows()
            inflow.channel.flow(come, inflow.progress.value)

    def limit(self, packets: list[Packet]) -> None:
        """Before a micro-batch is taken. A stream's first rows are limited by no mark, and a task knows its own only:
        queries that would report too often from the oldest row of all tasks to the new watermark fail."""
        self.limited = {}
        for stream, inflow in self.inflows.items():
            own = [packet for packet in packets if packet.stream == stream]
            oldest = min((packet.oldest for packet in own if packet.oldest is not None), default=None)
            if inflow.progress.value != INT64_MIN or oldest is None:
                continue
            ends = [packet.floor for packet in own if packet.floor is not None]
            end = max([*ends, *(p.greatest - inflow.progress.delay for p in own if p.greatest is not None)])
            reason = (
                f"the first rows of '{inflow.channel.name}' reach from {format_instant(oldest)} to "
                f"{format_instant(end)} and would close more than {WINDOWS_CLOSED_MAX:,} windows"
            )
            for name, query in self.program.version(self.version).hosted(self.fragment).items():
                slide = query.block.slide_us
                if slide is not None and end - oldest > slide * WINDOWS_CLOSED_MAX:
                    self.limited[name] = reason
                    self.fail(name, reason)

    def _note(self, notes: dict[str, int]) -> None:
        by_tree: dict[int, dict[str, int]] = {}
        for name, report in notes.items():
            if name in self._tree_of:
                by_tree.setdefault(self._tree_of[name], {})[name] = report
        for number, found in by_tree.items():
            if not self._consumers[number].torn:
                self._consumers[number].family.note(found)

    def take_failures(self) -> dict[str, str]:
        """The queries whose rows could not be folded here, with the reason."""
        return {name: why for consumer in self._consumers.values() for name, why in consumer.take_failures().items()}

    # -- what goes out -------------------------------------------------------------------------------------------

    def results(self, version: Version) -> dict[str, pa.Table]:
        """What is new of the fragment's own queries, by their names in the log."""
        found = {}
        for name, hosted in self.hosting.queries.items():
            table = hosted.read()
            query = version.queries.get(name)
            if query is not None and query.fragment == self.fragment.number and table.num_rows:
                found[query.log_name] = table
        return found

    def failed_of(self, version: Version) -> dict[str, str]:
        """The fragment's own queries that have failed, by their names in the log, with the reason."""
        own = {name: query for name, query in version.queries.items() if query.fragment == self.fragment.number}
        failures = self.failures
        found = {own[name].log_name: reason for name, reason in failures.items() if name in own}
        for query in own.values():
            for source in map(str.lower, query.definition.inputs):
                # A copy of a query that another fragment computes may have come too late for what it needs.
                if source in failures and source not in own and source not in self.hosting.consumers:
                    found.setdefault(query.log_name, f"it cannot read '{source}': {failures[source]}")
        return found

    def take_overflows(self, version: Version) -> dict[str, int]:
        """Answers of the fragment's own queries that were outside their type, since this was last asked."""
        found = {}
        for name, query in version.queries.items():
            if query.fragment == self.fragment.number and name in self.hosting.queries:
                found[query.log_name] = self.hosting.overflows(name)
        for hosted in self.hosting.queries.values():
            hosted.forget_overflows()
        return {name: count for name, count in found.items() if count}

    @property
    def failures(self) -> dict[str, str]:
        return {name: query.reason for name, query in self.hosting.queries.items() if query.status == "FAILED"}

    def lookup(self, name: str, at: int | None) -> pa.Table:
        query = self.hosting.queries[name]
        if query.status == "FAILED":
            raise NotHeldError(f"query '{name}' has failed: {query.reason}")
        return self.hosting.consumers[name].lookup(name, at)

    def stats(self) -> dict[str, Any]:
        own = self.trees
        trees = list(own.values())
        return {
            "groups": sum(tree.group_count for tree in trees),
            "slices": sum(len(tree.store.starts) for tree in trees),
            "open_slices": sum(tree.open_slice_count for tree in trees),
            "states": sum(len(tree.states) for tree in trees),
            "bytes": self.bytes_held,
            # By tree: groups, slices, and into how many trees of its own it is divided.
            "families": {n: [tree.group_count, len(tree.store.starts), tree.tree_count] for n, tree in own.items()},
        }

    @property
    def bytes_held(self) -> int:
        consumers = {id(c): c for c in self.hosting.consumers.values()}
        channels = sum(inflow.channel.bytes_held for inflow in self.inflows.values())
        tables = sum(table.bytes_held for table in self.tables.values())
        return channels + tables + sum(consumer.bytes_held for consumer in consumers.values())

    # -- whole snapshots, for fragments that keep a journal ------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "inflows": {stream: inflow.snapshot() for stream, inflow in self.inflows.items()},
            "tables": {key: table.snapshot() for key, table in self.tables.items()},
            **self.hosting.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any], marks: Marks) -> None:
        """A fresh bucket becomes the one of the snapshot."""
        self.become(self.program.version(snapshot["version"]), marks)
        self.hosting.restore(snapshot)
        for key, table in snapshot.get("tables", {}).items():
            if key in self.tables:  # not of a query that has failed or gone
                self.tables[key].restore(table)
        for stream, inflow in self.inflows.items():
            inflow.restore(snapshot["inflows"][stream])


def _rows_of(batch: pa.RecordBatch, channel: Channel, arrived: int) -> Rows:
    times = batch.column(channel.timestamp).view(pa.int64())
    return Rows(batch, np.asarray(times), arrived)

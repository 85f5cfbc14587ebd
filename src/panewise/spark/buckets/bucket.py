"""A bucket: the operators of a fragment over one hash class of its groups, fed by the tasks of stage 1.

It hosts queries as the embedded engine does, over channels of its own. Stage 2 has one for each bucket, and merges
partials or takes rows in it. Stage 1 has one for each folded fragment: it folds rows in it and takes the partials out.
Both go through the same versions at the same points of the streams, so both cut slices at the same edges.

The bucket of a folded fragment holds all its families. A family is cut only when its own queries change. It begins with
its first query, also in a bucket that is older: it has not seen the rows before that query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import cadence_of
from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.engine.hosting.query_registry import QueryRegistry
from panewise.engine.ingest.window_limit import WINDOWS_CLOSED_MAX
from panewise.errors import NotHeldError, PlanError
from panewise.operators.family.family import Family
from panewise.plan.physical_plan import Difference, PhysicalPlan, PhysicalQuery, Planned
from panewise.slicing.window_set import WindowSet
from panewise.spark.buckets.inflow import Inflow
from panewise.spark.program.program import Program
from panewise.spark.program.version import Fragment, PlannedQuery, Version
from panewise.spark.tables.table_log import FollowedTable, PinnedTables, TableChange
from panewise.spark.tasks.batch_progress import Marks
from panewise.spark.tasks.packing import Packet
from panewise.temporal import Window, format_instant


@dataclass(frozen=True)
class FamilyPart:
    """Partials of one family; `base` is the number of rows that arrived before those in the partials."""

    family: int
    partials: pa.RecordBatch
    base: int


class Bucket:
    """Queries of one fragment. A folded fragment has one stream, a row fragment any number."""

    def __init__(self, program: Program, fragment: Fragment, version: Version, folds_only: bool = False) -> None:
        self.program = program
        self.fragment = fragment
        self.version = -1
        self.inflows = {key: Inflow(version.streams[key], folds_only) for key in fragment.streams}
        self.main = self.inflows[fragment.stream]
        self.hosting = QueryRegistry(self._channel_of, program.sharing, self._table_of)
        self.tables: dict[str, FollowedTable] = {}  # the tables that its queries read
        self.merged: list[FamilyPart] = []  # partials of this micro-batch
        self.table_changes: dict[str, TableChange] = {}  # changes of this micro-batch
        self.limited: dict[str, str] = {}  # queries that `limit` failed in this micro-batch, with the reason
        self._consumers: dict[int, FamilyConsumer] = {}  # by number of the family
        self._family_of: dict[str, int] = {}  # number of the family, by query

    def _channel_of(self, name: str) -> Channel:
        query = self.hosting.queries.get(name.lower())
        if query is None:
            found = (i.channel for i in self.inflows.values() if i.channel.name.lower() == name.lower())
            return next(found)
        query.detach_from_ledger()  # a reader wants its results as they come
        return query

    def _table_of(self, name: str) -> FollowedTable:
        version = self.program.version(self.main.channel.version)
        key = version.table_key(name)
        return self.tables.setdefault(key, FollowedTable(version.tables[key]))

    @property
    def families(self) -> dict[int, Family]:
        """The families by number, also those whose queries have all failed."""
        return {number: consumer.family for number, consumer in self._consumers.items()}

    def number_of(self, consumer: FamilyConsumer) -> int:
        """The number of a family; 0 in a row fragment."""
        return next((number for number, known in self._consumers.items() if known is consumer), 0)

    # -- versions ------------------------------------------------------------------------------------------------

    def go_on_in(self, program: Program) -> bool:
        """Follows another program, if its plan of the current version is equal; returns whether it does."""
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
        """Whether no version up to this one changes the bucket's plan: then `become` changes no state."""
        return self.version <= version and not self.program.concerns(self.fragment, self.version, version)

    def become(self, version: Version, marks: Marks) -> None:
        """Applies the versions up to this one: adds and removes queries."""
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
                inflow.channel.host(version.number)
            if self.fragment.is_folded:
                reached, _ = marks.at(version.number, self.fragment.stream)
                self._change_families(difference, wanted, reached)
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
                inflow.channel.begin_after(reached)
                inflow.channel.number_rows_from(rows)
        self._change(Difference(difference.going))
        for name, query in difference.coming.items():
            # One by one: queries that read this one must know whether it has counted all rows.
            self._change(Difference(coming={name: query}))
            moved = any(marks.at(query.created, stream) != marks.at(version.number, stream) for stream in self.inflows)
            if moved:
                self.hosting.queries[name].count_not_all()

    def _change_families(self, difference: Difference, wanted: dict[str, PlannedQuery], reached: int | None) -> None:
        """Cuts the families of these queries, and no others, after the last row that any task has seen."""
        coming = [wanted[name] for name in difference.coming]
        touched = {self._family_of.pop(name) for name in difference.going} | {query.family for query in coming}
        cut = self.main.channel.cut_after(reached)  # for new families; those that exist keep their own beginning
        self._change(difference)
        for query in coming:
            self._family_of[query.name] = query.family
            consumer = self.hosting.family_of(query.name)
            if consumer is None:
                continue  # refused
            held = self._consumers.get(query.family)
            assert held is None or held.torn or held is consumer
            self._consumers[query.family] = consumer
        windows: dict[int, list[Window]] = {number: [] for number in touched}
        for query in wanted.values():
            if query.family in touched and query.block.window is not None:
                windows[query.family].append(query.block.window)
        for number, found in windows.items():
            if not found:
                self._consumers.pop(number, None)
            elif number in self._consumers:
                # All queries of the version, because a query that has failed here may run in other tasks and buckets.
                self._consumers[number].family.cut_from(cut, WindowSet(map(cadence_of, found)))

    def _change(self, difference: Difference) -> None:
        self.hosting.change(difference, self._refused)
        for hosted in self.hosting.queries.values():
            hosted.keep_all_unread()  # all results are read after every micro-batch

    def _refused(self, name: str, node: PhysicalQuery, problem: PlanError) -> HostedQuery:
        """A query that has failed: it needs all rows, and rows came between the statement and its micro-batch."""
        hosted = HostedQuery(name, node.plan, node.block)
        hosted.fail_alone(problem.message)
        return hosted

    def fail(self, name: str, reason: str) -> None:
        """Fails a query that has failed in another task or bucket."""
        query = self.hosting.queries.get(name)
        if query is None or query.status == "FAILED":
            return
        query.fail_alone(reason)
        consumer = self.hosting.consumers.get(name)
        if consumer is not None:
            consumer.let_go(name)

    # -- what comes in -------------------------------------------------------------------------------------------

    def see(self, tables: PinnedTables) -> None:
        """Brings the tables to the versions of this micro-batch."""
        self.tables = {key: table for key, table in self.tables.items() if table.is_read}
        found = {key: tables.change(key, table) for key, table in self.tables.items()}
        self.change_tables({key: change for key, change in found.items() if change is not None})

    def change_tables(self, changes: dict[str, TableChange]) -> None:
        self.table_changes = changes
        for key, change in changes.items():
            if key in self.tables:
                self.tables[key].go_to(change)

    def take(self, packets: list[Packet]) -> None:
        """Takes the packets of a micro-batch, in order, and then moves the watermark of each stream once."""
        self.merged = []
        for packet in packets:
            inflow = self.inflows[packet.stream]
            for name, reason in (packet.failed or {}).items():
                self.fail(name, reason)
            self._note(packet.notes or {})
            for number, partials in packet.parts.items():
                if number in self._consumers and not self._consumers[number].torn:
                    self._consumers[number].family.merge(partials, inflow.arrived)
                    self.merged.append(FamilyPart(number, partials, inflow.arrived))
            inflow.take(packet)
        for inflow in self.inflows.values():
            inflow.flow()

    def limit(self, packets: list[Packet]) -> None:
        """Call before `take`. Fails queries that would close too many windows with the first rows of a stream.

        No marks limit the first rows, and each task knows only its own rows; only a bucket knows the oldest of all.
        """
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
        by_family: dict[int, dict[str, int]] = {}
        for name, report in notes.items():
            if name in self._family_of:
                by_family.setdefault(self._family_of[name], {})[name] = report
        for number, found in by_family.items():
            if not self._consumers[number].torn:
                self._consumers[number].family.note(found)

    def take_failures(self) -> dict[str, str]:
        """The queries whose rows could not be folded here since the last call, with the reason."""
        return {name: why for consumer in self._consumers.values() for name, why in consumer.take_failures().items()}

    # -- what goes out -------------------------------------------------------------------------------------------

    def results(self, version: Version) -> dict[str, pa.Table]:
        """New results of the fragment's own queries, by their names in the log."""
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
                # The copy of a query of another fragment may have begun too late to be computed here.
                if source in failures and source not in own and source not in self.hosting.consumers:
                    found.setdefault(query.log_name, f"it cannot read '{source}': {failures[source]}")
        return found

    def take_overflows(self, version: Version) -> dict[str, int]:
        """The number of answers outside their type since the last call, by the log names of the fragment's queries."""
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
        own = self.families
        families = list(own.values())
        return {
            "groups": sum(family.group_count for family in families),
            "slices": sum(len(family.store.starts) for family in families),
            "open_slices": sum(family.open_slice_count for family in families),
            "states": sum(len(family.states) for family in families),
            "bytes": self.bytes_held,
            # By family: numbers of groups, slices and trees.
            "families": {
                n: [family.group_count, len(family.store.starts), family.tree_count] for n, family in own.items()
            },
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
        """Brings a new bucket to the state of a snapshot."""
        self.become(self.program.version(snapshot["version"]), marks)
        self.hosting.restore(snapshot)
        for key, table in snapshot.get("tables", {}).items():
            if key in self.tables:  # tables of failed and dropped queries are not restored
                self.tables[key].restore(table)
        for stream, inflow in self.inflows.items():
            inflow.restore(snapshot["inflows"][stream])

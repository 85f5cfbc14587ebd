"""A program hosted in the driver without rows, so that EXPLAIN can describe it as the embedded engine does.

Every fragment of the newest version has a bucket here. It is made like the buckets that run (`bucket.py`), from the
same nodes, with the same sharing, through the same versions, but never gets a row. Measurements come from the marks and
from the statistics of the running buckets (`Measures`); costs are those of all buckets together.

A bucket is kept while its plan is unchanged, so that the next EXPLAIN costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.language.sql_text import to_sql
from panewise.operators.shared_fold.shared_fold import clusters
from panewise.optimize.sharing.report.family_report import family_report
from panewise.optimize.sharing.report.sharing_report import FamilyReport, SharingReport, family_explanation
from panewise.plan.explanation import Explanation, explain
from panewise.spark.buckets.bucket import Bucket
from panewise.spark.program.program import Program
from panewise.spark.program.version import Fragment
from panewise.spark.tasks.batch_progress import Marks


class FamilyInBucket(NamedTuple):
    """A family in one bucket: its groups and slices, and `trees`, the number of trees in its weave there."""

    groups: int
    slices: int
    trees: int


@dataclass(frozen=True)
class Measures:
    """What is measured of a running program: the marks, and the statistics of each bucket."""

    marks: Marks = field(default_factory=Marks)
    buckets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def rows_per_us(self, stream: str) -> float | None:
        """The rate of a stream; None before its rows span any time."""
        marks = self.marks.of(stream)
        if marks.greatest is None or marks.oldest is None or marks.greatest <= marks.oldest:
            return None
        return marks.good_rows / (marks.greatest - marks.oldest)

    def of_family(self, number: int) -> list[FamilyInBucket]:
        """The measures of a family in each bucket that has it."""
        measures = (bucket.get("families", {}).get(str(number)) for bucket in self.buckets.values())
        return [FamilyInBucket(*found) for found in measures if found is not None]


class HostedProgram:
    """The newest version of a program, hosted for EXPLAIN."""

    def __init__(self, program: Program, measures: Measures, before: HostedProgram | None = None) -> None:
        """`before`: the last one, whose buckets are used again where their plans are equal."""
        self.program = program
        self._version = program.newest
        self._measures = measures
        self._marks = replace(measures.marks, since=dict(measures.marks.since))
        self._marks.take_hold([version.number for version in program.versions])
        known = {} if before is None else before._known
        self._known: dict[int, Bucket] = {n: known[n] for n in known if n in self._version.fragment_numbers}

    def _bucket(self, number: int) -> Bucket:
        bucket = self._known.get(number)
        if bucket is None or bucket.version > self._version.number or not bucket.go_on_in(self.program):
            bucket = self._known[number] = Bucket(self.program, self.program.fragments[number], self._version)
        bucket.become(self._version, self._marks)
        for name, query in self._version.hosted(bucket.fragment).items():
            if query.log_name in self._marks.failed:
                bucket.fail(name, self._marks.failed[query.log_name])
        return bucket

    @property
    def _buckets(self) -> list[Bucket]:
        return [self._bucket(number) for number in sorted(self._version.fragment_numbers)]

    def explanation(self, query: str | None) -> Explanation:
        """How a query runs, or all queries together."""
        return self._explained_all() if query is None else self._explained_query(query)

    # -- everything ------------------------------------------------------------------------------------------------

    def _explained_all(self) -> Explanation:
        """Streams with the folds of their tasks, and fragments with their families and queries."""
        buckets = self._buckets
        streams = (
            Explanation(f"STREAM {stream.name}", {}, tuple(self._folds(key, buckets)))
            for key, stream in self._version.streams.items()
        )
        counts = {
            "sharing": self.program.sharing,
            "queries": len(self._version.queries),
            "fragments": len(buckets),
            "trees": sum(len(family.family.members_by_tree) for b in buckets for family in b.hosting.families),
        }
        return Explanation("PLAN", counts, (*streams, *map(self._explained, buckets)))

    def report(self) -> SharingReport:
        """What the families of all fragments share."""
        families = (self._report(bucket, family) for bucket in self._buckets for family in bucket.hosting.families)
        return SharingReport(tuple(families), self.program.sharing)

    def _folds(self, stream: str, buckets: list[Bucket]) -> Iterator[Explanation]:
        """The sets of families, of any fragments, whose rows tasks fold in one pass if that is cheaper."""
        if self.program.sharing == "none":
            return
        own = [bucket for bucket in buckets if bucket.fragment.is_folded and bucket.fragment.stream == stream]
        families = [family for bucket in own for family in bucket.families.values()]
        for guests in clusters(families):
            if len(guests) < 2:
                continue
            keys = dict.fromkeys(to_sql(key) for family in guests for key in family.keys)
            wheres = {family.where for family in guests if family.where is not None}
            details: dict[str, Any] = {"families": len(guests)}
            if keys:
                details["by"] = ", ".join(keys)
            if wheres:
                details["selections"] = len(wheres)
            yield Explanation("FOLD rows once before the exchange, where that is cheaper", details)

    def _explained(self, bucket: Bucket) -> Explanation:
        fragment, version = bucket.fragment, self._version
        own = [query.definition.name for query in version.queries.values() if query.fragment == fragment.number]
        hosted = version.hosted(fragment).values()
        details: dict[str, Any] = {
            "queries": len(own),
            "rows": fragment.placement.way.value,
            "buckets": fragment.buckets,
        }
        again = [query.definition.name for query in hosted if query.fragment != fragment.number]
        if again:
            details["computes again"] = ", ".join(again)
        streams = ", ".join(version.streams[key].name for key in fragment.streams)
        parts = {str(part): part for part in self._consumers(bucket)}
        return Explanation(f"FRAGMENT {fragment.number} OVER {streams}", details, tuple(parts.values()))

    def _consumers(self, bucket: Bucket) -> Iterator[Explanation]:
        """What runs in a bucket; a consumer of several channels appears once for each."""
        hosting = bucket.hosting
        families = {id(family): family for family in hosting.families}
        channels = [*(inflow.channel for inflow in bucket.inflows.values()), *hosting.queries.values()]
        for channel in channels:
            for reader in channel.readers:
                family = families.get(id(reader))
                yield reader.explained() if family is None else self._explained_family(bucket, family)

    # -- families --------------------------------------------------------------------------------------------------

    def _report(self, bucket: Bucket, consumer: FamilyConsumer) -> FamilyReport:
        """The report of a family, over all buckets together."""
        measured = consumer.measured
        rate = self._rate(bucket.fragment, consumer)
        measures = self._measures.of_family(bucket.number_of(consumer))
        groups = measured.groups
        if consumer.family.keys and measures:
            groups = sum(bucket.groups for bucket in measures) or None
        load = replace(measured.load, groups=max(1, groups or 1), rate=measured.load.rate if rate is None else rate)
        slices = max((bucket.slices for bucket in measures), default=measured.slices_held[0])
        slices_held = slices, *measured.slices_held[1:]
        measured = replace(measured, load=load, rows_per_unit=rate, groups=groups, slices_held=slices_held)
        return family_report(consumer.shape, consumer.family.plan, measured)

    @staticmethod
    def _divided(measures: list[FamilyInBucket]) -> str:
        """The number of trees of a family in the running buckets, as text; empty if each bucket has one tree."""
        least, most = (pick((bucket.trees for bucket in measures), default=1) for pick in (min, max))
        if most == 1:
            return ""
        return f"{most} trees" if least == most else f"{least} to {most} trees"

    def _explained_family(self, bucket: Bucket, consumer: FamilyConsumer) -> Explanation:
        report, more = self._report(bucket, consumer), {}
        divided = self._divided(self._measures.of_family(bucket.number_of(consumer)))
        if divided:
            more["in its buckets"] = divided
        if not bucket.fragment.is_folded:
            more["over"] = report.stream
        return family_explanation(report).saying(more)

    def _rate(self, fragment: Fragment, consumer: FamilyConsumer) -> float | None:
        names = {self._version.streams[key].name: key for key in fragment.streams}
        key = names.get(consumer.channel.name)
        return None if key is None or consumer.counts_rows else self._measures.rows_per_us(key)

    # -- one query -------------------------------------------------------------------------------------------------

    def _explained_query(self, name: str) -> Explanation:
        """How a query runs, and what it shares."""
        planned = self._version.queries[name.lower()]
        hosting = self._bucket(planned.fragment).hosting
        hosted = hosting.queries[planned.name]
        consumer = hosting.consumers.get(planned.name)
        if consumer is None:  # it was created too late for the rows it needs
            return explain(planned.node.plan).saying({"failed": hosted.reason})
        return consumer.explained_query(hosted)

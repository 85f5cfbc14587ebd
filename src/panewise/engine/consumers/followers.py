"""Which queries get the reports of which member of a family.

A member is named after a query, which it follows with all others that mean the same and came at the same moment. Where
that query leaves and others stay, one of these gives the member its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from panewise.engine.channels.ledger import Place
from panewise.plan.aggregation import Aggregation
from panewise.slicing.pairs import Cadence

Meaning = tuple[Aggregation, Cadence]


class Followers:
    """Queries by member, and the member of each query. Every member has a query."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """No query follows anybody."""
        self.member_of: dict[str, str] = {}
        self._queries: dict[str, set[str]] = {}  # by member
        self._moment: object = None
        self._alike: dict[Meaning, str] = {}  # members that came at the moment, for their like
        self._began: dict[str, Place] = {}  # where these begin in their ledgers

    @property
    def by_member(self) -> Mapping[str, set[str]]:
        return self._queries

    def of(self, member: str) -> Iterable[str]:
        """The queries of a member, if there is one of that name."""
        return self._queries.get(member, ())

    # -- queries that come ---------------------------------------------------------------------------------------

    def come_at(self, moment: object) -> None:
        """Queries come: members that came at another moment have no likes any more."""
        if self._moment != moment:
            self._moment, self._alike, self._began = moment, {}, {}

    def like(self, meaning: Meaning) -> str | None:
        """The member that means the same and came at the same moment."""
        return self._alike.get(meaning)

    def lead(self, query: str, meaning: Meaning) -> None:
        """A query has a member of its own, which others may follow."""
        self._alike[meaning] = query

    def follow(self, query: str, member: str) -> None:
        self.member_of[query] = member
        self._queries.setdefault(member, set()).add(query)

    def begin_at(self, member: str, place: Place) -> Place:
        """Where a member's queries begin to read its ledger: where the first of them did."""
        return self._began.setdefault(member, place)

    def began_at(self, member: str) -> Place | None:
        """The same where the member came at this moment; else None."""
        return self._began.get(member)

    # -- queries that go -----------------------------------------------------------------------------------------

    def leave(self, query: str) -> tuple[str, str | None]:
        """A query leaves, also one that follows nobody yet: the member that it had, and under which name that goes on;
        None where nobody is left."""
        member = self.member_of.pop(query, query)
        left = self._queries.get(member, set())
        left.discard(query)
        if not left:
            self._forget(member)
            return member, None
        if member != query:
            return member, member
        heir = min(left)
        self._rename(member, heir)
        return member, heir

    def _forget(self, member: str) -> None:
        self._queries.pop(member, None)
        self._began.pop(member, None)
        self._alike = {meaning: other for meaning, other in self._alike.items() if other != member}

    def _rename(self, member: str, heir: str) -> None:
        self._queries[heir] = self._queries.pop(member)
        self.member_of.update(dict.fromkeys(self._queries[heir], heir))
        self._alike = {meaning: heir if other == member else other for meaning, other in self._alike.items()}
        if member in self._began:
            self._began[heir] = self._began.pop(member)

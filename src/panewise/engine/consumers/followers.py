"""Which queries follow which member of a family, that is, get its reports.

A member is followed by all queries with the same meaning that were created at the same moment, and has the name of one
of them. If that query leaves and others stay, the member is renamed after one of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from panewise.engine.channels.ledger import Place
from panewise.plan.aggregation import Aggregation
from panewise.slicing.pairs import Cadence

Meaning = tuple[Aggregation, Cadence]


class Followers:
    """Queries by member, and the member of each query. Every member is followed by a query."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets everything: no query follows a member."""
        self.member_of: dict[str, str] = {}
        self._queries: dict[str, set[str]] = {}  # by member
        self._moment: object = None
        self._alike: dict[Meaning, str] = {}  # Members that were added at this moment.
        self._began: dict[str, Place] = {}  # Where those members begin in their ledgers.

    @property
    def by_member(self) -> Mapping[str, set[str]]:
        return self._queries

    def of(self, member: str) -> Iterable[str]:
        """The queries that follow a member; none if there is no such member."""
        return self._queries.get(member, ())

    # -- queries that join ---------------------------------------------------------------------------------------

    def set_moment(self, moment: object) -> None:
        """Queries join at this moment. Members that were added at another moment cannot be followed by them."""
        if self._moment != moment:
            self._moment, self._alike, self._began = moment, {}, {}

    def like(self, meaning: Meaning) -> str | None:
        """The member with this meaning that was added at this moment."""
        return self._alike.get(meaning)

    def lead(self, query: str, meaning: Meaning) -> None:
        """A query has a member of its own, which others with this meaning may follow."""
        self._alike[meaning] = query

    def follow(self, query: str, member: str) -> None:
        self.member_of[query] = member
        self._queries.setdefault(member, set()).add(query)

    def begin_at(self, member: str, place: Place) -> Place:
        """The place where queries begin to read their member's ledger: the place of the first of them."""
        return self._began.setdefault(member, place)

    def began_at(self, member: str) -> Place | None:
        """The place where a member begins in its ledger; None if it was added at another moment."""
        return self._began.get(member)

    # -- queries that leave --------------------------------------------------------------------------------------

    def leave(self, query: str) -> tuple[str, str | None]:
        """A query leaves, which may follow no member yet. Returns its member, and the name that the member has from now
        on; None if no query follows it any more."""
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

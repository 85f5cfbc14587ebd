"""Channels: what queries read.

`channel.py` is the base of streams and queries, and `readers.py` has the contracts of those who read one.
`hosted_query.py` is a query: its results wait in a `ledger.py` that queries share, or in `unread_results.py`, within
the limit of `unread_total.py`. `failures.py` confines errors to the queries that they tear. `turns.py` lets one thread
at a time into the engine.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.channels.channel import Channel as Channel
    from panewise.engine.channels.hosted_query import HostedQuery as HostedQuery

__getattr__, __dir__ = face(__name__, {"Channel": "channel", "HostedQuery": "hosted_query"})

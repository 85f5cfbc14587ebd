"""Channels: streams and results of queries, as queries read them. Turns: one thread at a time is inside the engine."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.channels.channel import Channel as Channel
    from panewise.engine.channels.hosted_query import HostedQuery as HostedQuery

__getattr__, __dir__ = face(__name__, {"Channel": "channel", "HostedQuery": "hosted_query"})

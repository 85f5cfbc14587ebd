"""The embedded engine: statements, rows and answers in the caller's own process.

    engine        `panewise.Engine`, the public face
    calls         what each call does inside its turn
    recovery      snapshots, and how a folder is opened again
    statements    what CQL statements do
    reads, run    lookups and one-time queries; sources into sinks
    books         what is defined and what runs for it
    hosting       queries are started and stopped
    consumers     operators on channels: what runs
    durability    the log of an engine with a path
    tables        rows that statements or streams change
    archives      what archives know of the past
    ingest        rows on their way into a stream
    channels      what queries read: streams and results of queries

A folder imports only folders below it.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.engine import Engine as Engine

__getattr__, __dir__ = face(__name__, {"Engine": "engine"})

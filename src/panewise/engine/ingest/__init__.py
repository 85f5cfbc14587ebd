"""Rows on their way into a stream: judged, limited, queued, ordered by time."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.ingest.stream import Stream as Stream

__getattr__, __dir__ = face(__name__, {"Stream": "stream"})

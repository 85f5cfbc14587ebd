"""Rows on their way into a stream.

`stream.py` takes pushes. `intake.py` converts them, and `row_judge.py` finds bad rows by their types and by
`window_limit.py`, and sheds rows (`shedding.py`). Good rows wait in `input_queue.py`, if the stream has one, and in
`pending_rows.py`. Then `watermark.py` finds late rows. Late and bad rows are counted in `kept_rows.py` and remarked on.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.ingest.stream import Stream as Stream

__getattr__, __dir__ = face(__name__, {"Stream": "stream"})

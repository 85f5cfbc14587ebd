"""Stage 2, behind the shuffle: one stateful operator hosts the buckets of every fragment.

Per micro-batch a bucket gets the packets of all tasks (`bucket_step.py`). The key is the bucket's, the payload packed,
so Spark's plan and the state's schema stay the same whatever queries come and go.

This module imports next to nothing: with every start Spark loads it in a process of its own, only to ask for the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructType

from panewise.spark.program.reference import Reference

if TYPE_CHECKING:
    import pandas as pd

HEAD = -1  # the head's number among the pages


class FragmentProcessor(StatefulProcessor):
    """What Spark calls per bucket and micro-batch."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference

    def init(self, handle: StatefulProcessorHandle) -> None:
        # One variable, its schemas as objects: each variable costs a task 100 ms, each schema in words 10 ms.
        number, data = StructType().add("number", LongType()), StructType().add("data", BinaryType())
        self._pages = handle.getMapState("pages", number, data)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Spark's names."""
        import pandas as pd

        from panewise.spark.buckets.bucket_step import bucket_outputs
        from panewise.spark.tasks.packing import OUTPUT
        from panewise.spark.tasks.worker import task_of

        received: list[tuple[int, bytes]] = []
        for frame in rows:
            received.extend(zip(frame["ordinal"].tolist(), frame["payload"].tolist(), strict=True))
        received.sort(key=lambda pair: pair[0])
        payloads = [bytes(payload) for _, payload in received]
        store = SparkStore(self._pages)
        outputs = bucket_outputs(task_of(self._reference), int(key[0]), payloads, store)
        if outputs:
            yield pd.DataFrame(dict(zip(OUTPUT, zip(*outputs, strict=True), strict=True)))

    def close(self) -> None:
        pass


class SparkStore:
    """See `bucket_head.Store`. Every call is a message to the JVM of 0.1 to 0.3 ms: few large pages."""

    def __init__(self, pages: Any) -> None:
        self._pages = pages

    def head(self) -> bytes | None:
        value = self._pages.getValue((HEAD,))
        return None if value is None else bytes(value[0])

    def set_head(self, data: bytes) -> None:
        self.set_page(HEAD, data)

    def page(self, number: int) -> bytes:
        return bytes(self._pages.getValue((number,))[0])

    def set_page(self, number: int, data: bytes) -> None:
        self._pages.updateValue((number,), (data,))

    def drop_page(self, number: int) -> None:
        self._pages.removeKey((number,))

    def clear(self) -> None:
        self._pages.clear()

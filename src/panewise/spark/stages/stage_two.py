"""Stage 2, after the shuffle: one stateful operator hosts the buckets of every fragment.

In a micro-batch a bucket gets the packets of all tasks (`bucket_step.py`). Rows have the bucket's key and a packed
payload, so Spark's plan and the state's schema do not depend on the queries.

This module imports little: at every start Spark loads it in a separate process, only to ask for the state variables.
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
    """Spark calls it for each bucket in each micro-batch. The signatures are dictated by StatefulProcessor."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference

    def init(self, handle: StatefulProcessorHandle) -> None:
        # Each state variable costs a task 100 ms, each schema as text 10 ms: hence one variable, with schema objects.
        number, data = StructType().add("number", LongType()), StructType().add("data", BinaryType())
        self._pages = handle.getMapState("pages", number, data)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
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
    """A `bucket_head.Store` in Spark's state. Every call is a message to the JVM, which takes 0.1 to 0.3 ms."""

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

"""A pipeline that is killed and started again: `python -m tests.spark.exactly_once_job '{"checkpoint": ...}'`.

It executes the statements of a file and runs. Each line of its standard input is one more change; `end` ends it at a
micro-batch boundary. Where the Spark query fails it is started again, as whoever watches over a pipeline would do. With
`finish` it processes what is there, closes the last windows and ends by itself. Each line that it prints is an event.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import panewise as pw


def told(event: str, **details: Any) -> None:
    print(json.dumps({"event": event} | details), flush=True)


def lines() -> queue.Queue[str]:
    """What comes in, read by a thread, so that waiting for it does not keep anybody from looking at the pipeline."""
    found: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            found.put(line.strip())
        found.put("end")

    threading.Thread(target=read, daemon=True).start()
    return found


def keep_running(pipeline: pw.SparkPipeline) -> None:
    handle = pipeline.start()
    told("running", queries=[query.name for query in pipeline.queries()], batch=handle.status()["batch"])
    changes = lines()
    while True:
        try:
            change = changes.get(timeout=0.2)
        except queue.Empty:
            change = ""
        if change == "end":
            handle.stop()
            return
        if not handle.active:
            told("failed", message=handle.status()["message"][:2_000])
            handle = pipeline.start()
        if change:
            pipeline.execute(change)
            told("changed", batch=handle.status()["batch"])


def main() -> None:
    options = json.loads(sys.argv[1])
    session = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    pipeline = pw.SparkPipeline(session, checkpoint=options["checkpoint"])
    pipeline.execute(Path(options["statements"]).read_text())
    if options["finish"]:
        handle = pipeline.start(available_now=True)
        handle.wait()
        handle.flush()
        told("finished", stats=handle.stats(), cores=session.sparkContext.defaultParallelism)
    else:
        keep_running(pipeline)
        told("ended")
    session.stop()


if __name__ == "__main__":
    main()

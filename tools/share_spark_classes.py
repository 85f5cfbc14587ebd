"""Spark's classes in a file that Java processes map: `python tools/share_spark_classes.py FILE`.

A Java process of Spark takes about nine seconds of processor time until its first micro-batch is done, half of which
goes into classes. The tests start some thirty of them (tests/conftest.py names the file to each).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

STATEMENTS = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT);
CREATE QUERY q AS SELECT k, SUM(v) AS v FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;
"""


def main(file: Path) -> None:
    # Written when the process ends; without its warnings of classes that cannot be shared.
    written = f"-XX:ArchiveClassesAtExit={file.absolute()} -Xlog:cds*=off"
    os.environ["JDK_JAVA_OPTIONS"] = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {written}"
    import panewise as pw

    with tempfile.TemporaryDirectory() as folder:
        pipeline = pw.SparkPipeline(checkpoint=folder)
        pipeline.execute(STATEMENTS)
        handle = pipeline.start()
        pipeline.push("s", [{"ts": second * 1_000_000, "k": "a", "v": 1} for second in range(5)])
        handle.process_all()
        assert handle.fetch("q").num_rows == 4
        handle.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A pipeline through Spark Connect, in a process of its own: a session is either classic or a Connect one.

Prints what it saw as one line of JSON.
"""

from __future__ import annotations

import json
import sys

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import panewise as pw


def main(folder: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    pipeline = pw.SparkPipeline(spark, checkpoint=f"{folder}/checkpoint", name="through connect")
    pipeline.execute(f"""
        CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT);
        CREATE QUERY q AS SELECT k, SUM(v) AS total FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;
        CREATE QUERY c AS SELECT ISTREAM k, v FROM t [RANGE 1 SECOND];
        CREATE SINK files FROM q WITH (connector = 'parquet', path = '{folder}/out');
    """)
    handle = pipeline.start()
    for second in range(3):
        pipeline.push("t", [{"ts": second * 1_000_000 + i, "k": "ab"[i % 2], "v": i} for i in range(4)])
    handle.process_all()
    pipeline.execute("CREATE QUERY late AS SELECT k, COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k")
    pipeline.push("t", {"ts": 0, "k": "a", "v": 1000})  # late: a later micro-batch must know that
    handle.flush()
    seen = {name: handle.fetch(name).num_rows for name in ("q", "c", "late")}
    own = pipeline.results("q").writeStream.format("parquet").trigger(availableNow=True)
    own.option("checkpointLocation", f"{folder}/own-checkpoint").start(f"{folder}/own").awaitTermination()
    seen["sink"] = len(pq.read_table(f"{folder}/out"))
    seen["own"] = spark.read.parquet(f"{folder}/own").count()
    seen["late_rows"] = handle.stats()["streams"]["t"]["late_rows"]
    seen["lookup"] = handle.lookup("c").num_rows
    name, state = handle.progress()[-1]["name"], handle.status()["state"]
    handle.stop()
    sys.stdout.write(json.dumps(seen | {"name": name, "states": [state, handle.status()["state"]]}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

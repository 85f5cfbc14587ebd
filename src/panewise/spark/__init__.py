"""The same operators on Spark.

    pipeline, handle   `panewise.SparkPipeline`, and a pipeline while it runs
    stages             what Spark runs: folds before the shuffle, buckets behind it
    delivery           results to the log, sinks and archives, in one foreachBatch
    archives           CREATE ARCHIVE on Spark
    buckets, results   state of a part of the groups; the log of results
    tasks              what a task knows and what travels between stages
    tables             versions of tables
    ingest, sinks      sources, the inbox of pushed rows; kinds of sinks
    program            which definitions hold in which micro-batch
    kafka              Kafka without a jar
    environment        the session and the pipeline's folder

A folder imports only folders below it.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.spark.handle import Handle as Handle
    from panewise.spark.pipeline import SparkPipeline as SparkPipeline

__getattr__, __dir__ = face(__name__, {"Handle": "handle", "SparkPipeline": "pipeline"})

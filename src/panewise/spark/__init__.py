"""The second host: runs the operators of the embedded engine on Spark.

    pipeline           `panewise.SparkPipeline`, which users call
    spark_statements   runs statements, in the books and in a run
    handle             a run: what `SparkPipeline.start` returns
    driver             the Spark query of a run, its inbox, its threads
    spark_explaining   EXPLAIN
    folder_reader      what the pipeline's folder tells without a running query
    stages             what Spark runs: folds before the shuffle, buckets after it
    delivery           results go to the log, sinks and archives, in one foreachBatch
    archives           CREATE ARCHIVE on Spark
    buckets, results   the state of one hash class of groups; the log of results
    tasks              what a task knows, and what travels between the stages
    tables             versions of tables
    ingest, sinks      sources and the inbox of pushed rows; kinds of sinks
    kafka, program     Kafka without a jar; which definitions hold in which micro-batch
    environment        the session and the pipeline's folder

A folder imports only folders below it.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.spark.handle import Handle as Handle
    from panewise.spark.pipeline import SparkPipeline as SparkPipeline

__getattr__, __dir__ = face(__name__, {"Handle": "handle", "SparkPipeline": "pipeline"})

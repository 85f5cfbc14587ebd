"""The backends for the two hosts: `engine_backend` for the embedded engine, `spark_backend` for a Spark pipeline.

`spark_answers` keeps the answers of the pipeline for lookups.
"""

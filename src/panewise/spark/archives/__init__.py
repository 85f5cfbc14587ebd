"""CREATE ARCHIVE on Spark: micro-batches become updates of archives, which Spark can read as a data source."""

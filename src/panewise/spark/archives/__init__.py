"""CREATE ARCHIVE on Spark: what micro-batches stage becomes updates of archives; archives as a data source."""

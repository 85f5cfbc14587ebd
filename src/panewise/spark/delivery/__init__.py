"""The foreachBatch: results of a micro-batch go to the log, sinks and archives. Each of these steps is idempotent."""

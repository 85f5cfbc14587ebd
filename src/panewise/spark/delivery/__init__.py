"""The foreachBatch: results of a micro-batch go to the log, to sinks and to archives, each idempotent."""

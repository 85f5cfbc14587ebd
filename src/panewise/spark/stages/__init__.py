"""What Spark runs: stage 1 folds rows before the shuffle, stage 2 hosts the buckets after it."""

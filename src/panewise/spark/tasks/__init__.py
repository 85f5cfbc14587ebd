"""What a task of a micro-batch knows, and the packed rows that tasks and buckets send."""

"""What routes ask, and the two hosts that answer: the embedded engine and a Spark pipeline."""

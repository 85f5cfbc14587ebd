"""What operations cost: counted as the papers count them, and in nanoseconds measured on this machine."""

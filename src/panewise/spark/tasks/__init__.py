"""What a task of a micro-batch knows, and the packed rows that it sends."""

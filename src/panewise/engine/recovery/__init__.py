"""Recovery: an engine is written as a snapshot, and restored from a folder with a snapshot and a log.

engine_snapshot    the state of an engine as bytes, and back
durable_replay     repeats what the log says
durable_opening    opens a folder: the newest snapshot, then the log
"""

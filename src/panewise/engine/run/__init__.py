"""Runs: sources are read into an engine and sinks are fed from it, exactly once if the engine has a path.

driver                        a run, from its first batch to its last
pump, flows                   batches from sources into the engine
outlets                       results to sinks
source_notes, sink_notes      where the next run continues
held_interrupts               Ctrl-C between two batches
progress, terminal_tables     what a terminal shows
"""

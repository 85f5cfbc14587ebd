"""A run of the embedded engine: sources in, sinks out, for `Engine.run` and for the command line alike.

`driver.py` is what both call. `flows.py` opens the sources and takes batches from them, `source_notes.py` knows how far
each was read, `pump.py` moves batches into the engine, `outlets.py` moves results to the sinks, whose places
`sink_notes.py` remembers. `held_interrupts.py` holds Ctrl-C until a batch is whole; `progress.py` and
`terminal_tables.py` are what a terminal shows.
"""

"""An engine as a snapshot, and a folder as an engine again: snapshot, log, replay."""

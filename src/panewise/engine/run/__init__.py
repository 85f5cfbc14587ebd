"""Runs: sources are read into an engine and sinks fed from it, exactly once where the engine has a path."""

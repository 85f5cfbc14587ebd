"""Connectors: sources and sinks of the embedded engine by name, and the options that all connectors share."""

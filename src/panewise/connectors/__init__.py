"""Connectors: the sources and sinks of the embedded engine.

`by_name` finds and opens them, `options` checks their options. Sources are in `sources` and `generator`; `conform` and
`python_values` turn what they read into Arrow columns. Sinks are in `sinks`; `numbered_sinks` writes each row once even
after a fault. `tables` reads the tables that a connector fills. `places` refuses sinks that would write into a source.
"""

"""The command `panewise`.

`cli` declares the options; each command has a module: `run` (embedded engine) and `run_spark`, `served_run` (with a
server beside the run), `explain`, `shell`, `demo`, `bench`, `archive_commands`. `durable_start` reconciles a file of
statements with a data folder. `subscribed` delivers a server's results to sinks.
"""

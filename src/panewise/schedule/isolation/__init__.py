"""Reads that run beside window moves, and what they may see.

`transactions` defines reads and moves, `schedulers` the contract of the schedulers: `serial_scheduler`,
`window_scheduler` and `latest_window_scheduler`, which `scheduler_names` lists. `read_orders` are the orders in which a
read scans sub-windows. `recorded_scheduler` records decisions as a history (`histories`). `levels` finds the isolation
level of a history from what its reads saw (`views`), and `serialization_graph` by the theorems.
"""

"""Live results, by WebSocket and server-sent events.

`live_routes` has the routes, `live_place` parses where a subscriber begins, `live_reader` makes its messages,
`live_subscribers` runs all subscribers, `live_sockets` handles the messages of a WebSocket's client.
"""

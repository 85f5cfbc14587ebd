"""The client of a panewise server: `panewise.connect(url, token)`, with the engine's methods.

`client` has the methods, `transport` sends requests and retries them, `numbering` numbers pushes, `result_reader` reads
results page by page, `live` and `subscription` follow results over a `socket_connection`. `wire` encodes and decodes
data, `problems` turns refusals into exceptions.
"""

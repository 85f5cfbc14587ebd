"""The calls of an engine: each takes its turn, processes what is pending, and notes what listeners have to hear.

flusher            processes pending rows, as a whole or in portions
checkpoints        snapshots, and when one is due
statement_calls    statements, also those that read for long
stream_calls       rows and punctuations into streams
result_calls       results to readers and subscribers
lookup_calls       answers, published or computed
"""

"""Modules that all parts of the server use.

`settings`, `logs`, `metrics`, `bodies` (decodes requests), `arrow_message_sizes` (bounds the memory of decoding),
`responses` and `error_answers` (encode answers), and `backend`, the contract of backends.
"""

"""What all parts of the server use: settings, logs, metrics, bodies of requests, answers, errors, the contract of
backends.
"""

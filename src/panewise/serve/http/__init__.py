"""The HTTP and WebSocket server over an embedded engine or a running Spark pipeline.

`gate` admits or refuses requests before their bodies are read, `routes` answer them, `live` sends results as they
appear, `backends` ask the host, `results` numbers and keeps results, `service` has what all of them use, `dashboard` is
the web page. `app` assembles the application, `server` runs it.
"""

"""The HTTP and WebSocket server: `panewise serve`, over an embedded engine or a running Spark pipeline."""

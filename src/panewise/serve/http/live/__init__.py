"""Results as they appear, by WebSocket and server-sent events."""

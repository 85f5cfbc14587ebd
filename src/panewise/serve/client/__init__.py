"""The client of a panewise server: `panewise.connect(url, token)`, with the engine's methods."""

"""The command `panewise`."""

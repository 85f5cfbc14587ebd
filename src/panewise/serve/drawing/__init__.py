"""The weave as a picture."""

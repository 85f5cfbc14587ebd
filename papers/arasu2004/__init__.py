"""Arasu and Widom 2004: resource sharing in sliding-window aggregates; substream filters; synopses of joins."""

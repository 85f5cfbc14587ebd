"""Reads beside window moves: histories, levels of isolation, and the schedulers that keep a level."""

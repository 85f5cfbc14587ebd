"""Consumers: operators that read channels, in families or for one query each, and what they need to go step by step."""

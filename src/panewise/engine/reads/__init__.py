"""Answers: lookups of registered queries and one-time queries, at a level of isolation."""

"""Statements: what they do to an engine, and what SHOW, EXPLAIN and `stats()` say of it.

statement_runner    runs bound statements, each all or nothing
engine_definer      creates, drops and alters definitions
query_plans         plans new queries beside those that run
explaining          EXPLAIN
engine_report       SHOW, and figures of queries and families
listeners           subscribers and warnings, called when a turn has ended
"""

"""The books of an engine: what is defined, what runs for it, and the log.

books                  the state of one engine, for everything that works on it
engine_archives        its archives
interpreter            statements that define, for all hosts
definitions            definitions from statements, and back
made_queries           queries that this process has bound and planned already
measured_statistics    what the planner is told of streams and tables
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.books.books import Books as Books

__getattr__, __dir__ = face(__name__, {"Books": "books"})

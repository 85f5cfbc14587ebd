"""The books of an engine: what is defined, what runs for it, and what is written down of it."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.books.books import Books as Books

__getattr__, __dir__ = face(__name__, {"Books": "books"})

"""The registry of running queries: it starts, changes and stops them as their physical plan says."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.hosting.query_registry import QueryRegistry as QueryRegistry

__getattr__, __dir__ = face(__name__, {"QueryRegistry": "query_registry"})

"""Tables: their rows, and the streams that change them."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.tables.table import Table as Table

__getattr__, __dir__ = face(__name__, {"Table": "table"})

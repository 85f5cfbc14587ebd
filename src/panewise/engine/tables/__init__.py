"""Tables: their rows, and the streams that change them.

`table.py` has a table that statements change. `changed_table.py` has one that a stream changes: `change_feed.py` reads
the stream, and `latest_rows.py` finds the rows that a change concerns. `table_content.py` compares whole contents.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.tables.table import Table as Table

__getattr__, __dir__ = face(__name__, {"Table": "table"})

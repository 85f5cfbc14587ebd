"""What queries may not do with tables: each refusal in words, with what to write instead.

A table stands in a join with windows of time. It is joined above no STRICT edge: a row that ends may have met rows of
the table that are not there any more (Golab 2006, section 3.5.3).
"""

from __future__ import annotations

from panewise.errors import PlanError
from panewise.plan.inputs import is_table, of_block, table_inputs
from panewise.plan.nodes import Emit, Join, WindowOf
from panewise.temporal import RowsWindow


def check_tables(plan: Emit, once: bool) -> None:
    """Raises PlanError where tables of this block are read as no operator reads them; `once`: by a one-time query."""
    tables = table_inputs(plan)
    if not tables or once:  # alone it may be read once, and of several inputs one-time queries read none
        return
    joined: set[int] = set()
    for node in of_block(plan.input):
        if isinstance(node, Join) and any(isinstance(part, WindowOf) for part in node.inputs):
            _check_join(node)
            joined |= {id(part) for part in node.inputs}
    alone = next((table for table in tables if id(table) not in joined), None)
    if alone is not None:
        raise PlanError(
            f"a query that runs on reads table '{alone.name}' only in a join with a window",
            hint=f"join it: FROM a stream [RANGE ...], {alone.name} WHERE their columns are equal; "
            f"SELECT ... FROM {alone.name} reads it once",
            about=alone.name,
        )


def _check_join(node: Join) -> None:
    tables = [part for part in node.inputs if is_table(part)]
    windows = [part for part in node.inputs if isinstance(part, WindowOf)]
    for part in windows if tables else []:
        if isinstance(part.window, RowsWindow):
            raise PlanError(
                f"table '{tables[0].name}' is joined with '{part.source}' {part.window}, whose rows may end at any "
                "time: what they have met in the table may be gone by then",
                hint="use a window of time, such as [RANGE 1 MINUTE]",
            )
        if part.window.internal and (len(windows) == 1 or any(table.retroactive for table in tables)):
            raise PlanError(
                f"the window {part.window} of '{part.source}' is INTERNAL, which says how long other windows find its "
                "rows, and results with a table that changes them would have to be kept for ever",
                hint="leave out INTERNAL, or write SELECT ISTREAM over the window without it",
            )

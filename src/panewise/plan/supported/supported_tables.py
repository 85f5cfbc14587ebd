"""Refuses uses of tables that no operator runs. Each error says what to write instead.

A table can be joined with windows of time. It cannot be joined above a STRICT edge: when a row of that edge ends, the
table rows that it met may already be gone (Golab 2006, section 3.5.3).
"""

from __future__ import annotations

from panewise.errors import PlanError
from panewise.plan.inputs import is_table, of_block, table_inputs
from panewise.plan.nodes import Emit, Join, WindowOf
from panewise.temporal import RowsWindow


def check_tables(plan: Emit, once: bool) -> None:
    """Raises PlanError if no operator can read the tables of this block. `once`: the plan is of a one-time query."""
    tables = table_inputs(plan)
    if not tables or once:  # a one-time query may read a table in any way
        return
    joined: set[int] = set()
    for node in of_block(plan.input):
        if isinstance(node, Join) and any(isinstance(part, WindowOf) for part in node.inputs):
            _check_join(node)
            joined |= {id(part) for part in node.inputs}
    alone = next((table for table in tables if id(table) not in joined), None)
    if alone is not None:
        raise PlanError(
            f"a registered query reads table '{alone.name}' only in a join with a window",
            hint=f"write FROM stream [RANGE ...], {alone.name} WHERE columns of both are equal; "
            f"SELECT ... FROM {alone.name} without CREATE QUERY reads it once",
            about=alone.name,
        )


def _check_join(node: Join) -> None:
    tables = [part for part in node.inputs if is_table(part)]
    windows = [part for part in node.inputs if isinstance(part, WindowOf)]
    for part in windows if tables else []:
        if isinstance(part.window, RowsWindow):
            raise PlanError(
                f"table '{tables[0].name}' cannot be joined with '{part.source}' {part.window}, whose rows end at "
                "unknown times: by then the table rows that they met may be gone",
                hint="use a window of time, such as [RANGE 1 MINUTE]",
            )
        if part.window.internal and (len(windows) == 1 or any(table.retroactive for table in tables)):
            raise PlanError(
                f"'{part.source}' has the INTERNAL window {part.window} and is joined with a table: all results would "
                "have to be kept for ever",
                hint="leave out INTERNAL, or write SELECT ISTREAM over the window without it",
            )

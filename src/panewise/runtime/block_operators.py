"""Which operator runs a query over one input, where it does not join a tree.

Nothing is attached here, so that the operator of a query that has failed can be made afresh.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from panewise.aggregates.user import matrix_of
from panewise.language.statements import Emit as Emission
from panewise.operators.aggregation import aggregation_of
from panewise.operators.collective import CollectiveLookup
from panewise.operators.collective_condition import collective_condition
from panewise.operators.continuous import ContinuousAggregate, ContinuousRows
from panewise.operators.counted_reports import CountedRowWindow
from panewise.operators.family.family import Family
from panewise.operators.lifetimes import NEVER
from panewise.operators.partitioned_rows import PartitionedRows
from panewise.operators.relation_to_stream import Restore
from panewise.operators.row_window import RowWindow
from panewise.plan.blocks import Block
from panewise.runtime.finish import RestoredOperator, SoleTree
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.window_ends import cadence_of
from panewise.temporal import RowsWindow, TimeWindow


def operator_of(query: HostedQuery, held_from: int | None, silent: bool) -> Any:
    """A fresh operator. `held_from`: rows before it are not seen. `silent`: it is only asked, and reports nothing."""
    block, window = query.block, query.block.window
    assert window is not None
    if block.restore:
        return _restored(query, held_from)
    if block.aggregate is not None:
        aggregation = aggregation_of(block)
        shared = aggregation, window, block.where, block.emission, block.source_schema, held_from
        if block.periodic:
            assert isinstance(window, RowsWindow)
            return PartitionedRows(aggregation, window, *shared[2:], matrix_of=matrix_of)
        condition = collective_condition(aggregation, window) if silent else None
        if condition is not None:
            assert isinstance(window, TimeWindow)
            return CollectiveLookup(aggregation, condition, window, block.where, block.emission, held_from)
        return ContinuousAggregate(*shared, silent=silent, matrix_of=matrix_of)
    selection = block.where, block.emission, block.source_schema, held_from
    if not block.periodic:
        return ContinuousRows(block.items, window, *selection, silent=silent)
    if isinstance(window, TimeWindow):
        return RowWindow(block.items, window, *selection)
    return CountedRowWindow(block.items, window, *selection)


def _restored(query: HostedQuery, held_from: int | None) -> RestoredOperator:
    block, window = query.block, query.block.window
    assert isinstance(window, TimeWindow)
    endless = TimeWindow(window.range_us, None, window.offset_us, 0, window.internal)
    begins = NEVER
    if held_from is not None and window.range_us is not None:
        begins = held_from + window.range_us + window.offset_us - 1
    restore = Restore(block.emission, items_of(block), window, begins)
    schema = block.source_schema
    if block.aggregate is None:
        return RestoredOperator(
            ContinuousRows(block.items, endless, block.where, Emission.ISTREAM, schema, held_from),
            RowWindow(block.items, window, block.where, Emission.RSTREAM, schema, held_from),
            restore,
        )
    aggregation = aggregation_of(block)
    tree = Family(aggregation.keys, block.where, held_from)
    tree.add(query.name, aggregation, cadence_of(window))
    return RestoredOperator(
        ContinuousAggregate(
            aggregation, endless, block.where, Emission.ISTREAM, schema, held_from, matrix_of=matrix_of
        ),
        SoleTree(tree, query.name, query.arrow),
        restore,
    )


def items_of(block: Block) -> pa.Schema:
    """The columns that SELECT names, without those of the window."""
    return pa.schema([(item.name, item.expression.type.to_arrow()) for item in block.items])

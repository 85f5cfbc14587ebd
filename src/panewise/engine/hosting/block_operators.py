"""Makes the operators of queries over one input that are in no family, as their nodes say.

Nothing is attached here, so that a query that has failed can get a fresh operator.
"""

from __future__ import annotations

import pyarrow as pa

from panewise.aggregates.user import matrix_of
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import cadence_of
from panewise.engine.consumers.report_diff import RestoredOperator, SoleFamily
from panewise.language.statements import Emission
from panewise.operators.continuous.collective_lookup import CollectiveLookup
from panewise.operators.continuous.continuous import ContinuousAggregate, ContinuousRows
from panewise.operators.family.family import Family
from panewise.operators.lifetimes import NEVER
from panewise.operators.relation_to_stream import Restore
from panewise.operators.row_operator import RowOperator
from panewise.operators.row_windows.counted_reports import CountedRowWindow
from panewise.operators.row_windows.partitioned_rows import PartitionedRows
from panewise.operators.row_windows.row_window import RowWindow
from panewise.optimize.collective_condition import collective_condition
from panewise.plan.aggregation import aggregation_of
from panewise.plan.blocks import Block
from panewise.plan.physical_plan import Operator, RowQuery
from panewise.temporal import RowsWindow, TimeWindow


def operator_of(query: HostedQuery, node: RowQuery, held_from: int | None) -> RowOperator:
    """A fresh operator of a node. `held_from`: rows before this instant are not seen."""
    block, window = node.block, node.block.window
    assert window is not None
    selection = block.where, block.emission, block.source_schema, held_from
    match node.operator:
        case Operator.RESTORED:
            return _restored(query, held_from)
        case Operator.PARTITIONED_ROWS:
            assert isinstance(window, RowsWindow)
            return PartitionedRows(aggregation_of(block), window, *selection, matrix_of=matrix_of)
        case Operator.COLLECTIVE_LOOKUP:
            assert isinstance(window, TimeWindow)
            aggregation = aggregation_of(block)
            condition = collective_condition(aggregation, window)
            assert condition is not None
            return CollectiveLookup(aggregation, condition, window, block.where, block.emission, held_from)
        case Operator.CONTINUOUS_AGGREGATE:
            of_rows = aggregation_of(block), window, *selection
            return ContinuousAggregate(*of_rows, silent=node.silent, matrix_of=matrix_of)
        case Operator.CONTINUOUS_ROWS:
            return ContinuousRows(block.items, window, *selection, silent=node.silent)
        case Operator.ROW_WINDOW:
            assert isinstance(window, TimeWindow)
            return RowWindow(block.items, window, *selection)
        case Operator.COUNTED_ROW_WINDOW:
            assert isinstance(window, RowsWindow)
            return CountedRowWindow(block.items, window, *selection)


def _restored(query: HostedQuery, held_from: int | None) -> RestoredOperator:
    block, window = query.block, query.block.window
    assert isinstance(window, TimeWindow)
    endless = TimeWindow(window.range_us, None, window.offset_us, 0, window.internal)
    begins = NEVER
    if held_from is not None and window.range_us is not None:
        begins = held_from + window.range_us + window.offset_us - 1
    # HAVING drops reports, so that the first one that is left says nothing of when reports began.
    is_total = block.aggregate is not None and not aggregation_of(block).keys and block.having is None
    restore = Restore(block.emission, items_of(block), window, begins, is_total)
    schema = block.source_schema
    if block.aggregate is None:
        return RestoredOperator(
            ContinuousRows(block.items, endless, block.where, Emission.ISTREAM, schema, held_from),
            RowWindow(block.items, window, block.where, Emission.RSTREAM, schema, held_from),
            restore,
            query.arrow,
        )
    aggregation = aggregation_of(block)
    tree = Family(aggregation.keys, block.where, held_from)
    tree.add(query.name, aggregation, cadence_of(window))
    return RestoredOperator(
        ContinuousAggregate(
            aggregation, endless, block.where, Emission.ISTREAM, schema, held_from, matrix_of=matrix_of
        ),
        SoleFamily(tree, query.name, query.arrow),
        restore,
        query.arrow,
    )


def items_of(block: Block) -> pa.Schema:
    """The columns that SELECT names, without window_start and window_end."""
    return pa.schema([(item.name, item.expression.type.to_arrow()) for item in block.items])

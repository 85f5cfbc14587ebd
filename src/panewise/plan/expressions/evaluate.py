"""Scalar expressions on Arrow batches: SQL's three-valued logic and TRY rules, one vectorised pass per node.

`compiled` turns an expression into a function of a batch, so that a call costs little more than its kernels. Constant
parts are folded, and an expression over one dictionary-encoded column is computed on the dictionary. No data raises an
error: a bad cast, a division by zero or an overflow is NULL. `spark_sql.py` prints the same meaning for Spark.

Comparisons of floating numbers follow Spark: NaN equals itself and is greater than every number, -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.language.expressions import AggregateCall, Call, Case, Cast, ColumnRef, Expression, Literal
from panewise.plan.expressions.evaluate_arithmetic import ARITHMETIC_KERNELS
from panewise.plan.expressions.evaluate_casts import cast
from panewise.plan.expressions.evaluate_dates import DATE_KERNELS
from panewise.plan.expressions.evaluate_strings import STRING_KERNELS
from panewise.plan.expressions.text_sizes import about_to_make, check_constant, counted, limited, makes_texts
from panewise.plan.expressions.vectors import Operand
from panewise.schema import BOOLEAN

Kernel = Callable[[list[Operand], pa.DataType], pa.Array]
Evaluator = Callable[[pa.RecordBatch], pa.Array]
# Returns an array of the batch's length, or a scalar if the value is constant.
_Step = Callable[[pa.RecordBatch], Operand]


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """The value of the expression for every row of the batch.

    >>> from panewise.language.functions import resolve
    >>> from panewise.schema import BIGINT
    >>> size = ColumnRef(BIGINT, "size")
    >>> batch = pa.record_batch({"size": pa.array([1, None, 2**63 - 1])})
    >>> evaluate(resolve("add", (size, Literal(BIGINT, 1))), batch).to_pylist()
    [2, None, None]
    """
    return compiled(expression)(batch)


def selected(predicate: Expression, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows for which the predicate is TRUE. Rows with FALSE or NULL are dropped.

    >>> from panewise.language.functions import resolve
    >>> from panewise.schema import DOUBLE
    >>> price = ColumnRef(DOUBLE, "price")
    >>> batch = pa.record_batch({"price": [1.0, None, 3.0]})
    >>> selected(resolve("gt", (price, Literal(DOUBLE, 2.0))), batch).to_pydict()
    {'price': [3.0]}
    """
    assert predicate.type == BOOLEAN, predicate
    mask = compiled(predicate)(batch)
    if mask.null_count == 0 and mask.true_count == len(batch):
        return batch
    return batch.filter(mask)


def compiled(expression: Expression) -> Evaluator:
    """A function from a batch to the expression's values. Compile once and call it for every batch.

    >>> from panewise.schema import STRING
    >>> compiled(Literal(STRING, "x"))(pa.record_batch({"a": [1, 2]})).to_pylist()
    ['x', 'x']
    """
    if isinstance(expression, ColumnRef):
        return partial(_column, expression)
    step = _step(expression)
    if isinstance(step, pa.Scalar):
        return partial(_repeated, step)
    columns = expression.columns()
    if len(columns) == 1:
        step = partial(_through_dictionary, columns[0], step)
    return partial(counted, step) if makes_texts(expression) else step


# ---- columns and constants -------------------------------------------------------------------------------------------


def _column(column: ColumnRef, batch: pa.RecordBatch) -> pa.Array:
    """The column itself, not a copy: `source.name` if the batch has such a column, otherwise `name`."""
    if column.source is not None:
        index = batch.schema.get_field_index(f"{column.source}.{column.name}")
        if index >= 0:
            return batch.column(index)
    index = batch.schema.get_field_index(column.name)
    assert index >= 0, f"no column {column.name} in {batch.schema.names}"
    return batch.column(index)


def _declared_column(column: ColumnRef, type: pa.DataType, batch: pa.RecordBatch) -> pa.Array:
    """The column in the Arrow type of its declared type, which is the only one that kernels support."""
    array = _column(column, batch)
    return array if array.type == type else array.cast(type, safe=False)


def _repeated(scalar: pa.Scalar, batch: pa.RecordBatch) -> pa.Array:
    if not scalar.is_valid:
        return pa.nulls(len(batch), scalar.type)
    if pa.types.is_string(scalar.type):
        about_to_make(scalar.as_buffer().size * len(batch))
    return pa.repeat(scalar, len(batch))


def _through_dictionary(column: ColumnRef, step: _Step, batch: pa.RecordBatch) -> pa.Array:
    """The step's values. If its only column is dictionary-encoded, they are computed once for each distinct value."""
    array = _column(column, batch)
    if not pa.types.is_dictionary(array.type) or len(array.dictionary) >= len(array):
        return step(batch)
    dictionary = array.dictionary
    values = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
    answers = step(pa.record_batch([values], names=[column.name]))
    places = array.indices.cast(pa.int64()).fill_null(len(dictionary))
    if pa.types.is_string(answers.type):
        about_to_make(pc.sum(pc.binary_length(answers).cast(pa.int64()).take(places)).as_py() or 0)
    return answers.take(places)


# ---- nodes -----------------------------------------------------------------------------------------------------------


def _step(expression: Expression) -> _Step | pa.Scalar:
    """The evaluator of a node, or its value if the node is constant."""
    match expression:
        case ColumnRef():
            return partial(_declared_column, expression, expression.type.to_arrow())
        case Literal():
            return pa.scalar(expression.value, expression.type.to_arrow())
        case Cast():
            return _cast_step(expression)
        case Case():
            return _case_step(expression)
        case Call():
            return _call_step(expression)
        case AggregateCall():
            raise AssertionError(f"{expression.function} is an aggregate: the plan replaces it by a column")
    raise AssertionError(expression)


def _cast_step(expression: Cast) -> _Step | pa.Scalar:
    target = expression.type.to_arrow()
    operand = _step(expression.operand)
    if isinstance(operand, pa.Scalar):
        return cast(_one_row(operand), target)[0]
    return lambda batch: cast(operand(batch), target)


def _case_step(expression: Case) -> _Step | pa.Scalar:
    """The evaluator of a CASE. No branch can raise, so every branch is computed for every row."""
    parts = [_step(part) for part in expression.children()]
    if all(isinstance(part, pa.Scalar) for part in parts):
        return _case([_one_row(part) for part in parts])[0]
    return lambda batch: _case([_array(part, batch) for part in parts])


def _case(parts: list[pa.Array]) -> pa.Array:
    conditions, values = parts[:-1:2], [*parts[1:-1:2], parts[-1]]
    if len(conditions) == 1:
        condition = conditions[0]
        return pc.if_else(condition.fill_null(False) if condition.null_count else condition, *values)
    return pc.case_when(pc.make_struct(*conditions), *values)


def _call_step(expression: Call) -> _Step | pa.Scalar:
    type = expression.type.to_arrow()
    kernel = KERNELS[expression.function]
    arguments = [_step(argument) for argument in expression.arguments]
    constants = [argument for argument in arguments if isinstance(argument, pa.Scalar)]
    if expression.function not in _SEES_NULLS and any(not constant.is_valid for constant in constants):
        return pa.scalar(None, type)
    if len(constants) == len(arguments):
        subject = 1 if expression.function == "date_trunc" else 0
        arguments[subject] = _one_row(arguments[subject])
        with limited(check_constant):
            return kernel(arguments, type)[0]
    if len(arguments) == 1:
        (only,) = arguments
        assert not isinstance(only, pa.Scalar)
        return lambda batch: kernel([only(batch)], type)
    return lambda batch: kernel([a if isinstance(a, pa.Scalar) else a(batch) for a in arguments], type)


def _one_row(scalar: pa.Scalar) -> pa.Array:
    return pa.array([scalar.as_py()], scalar.type) if not pa.types.is_timestamp(scalar.type) else pa.repeat(scalar, 1)


def _array(part: Any, batch: pa.RecordBatch) -> pa.Array:
    return _repeated(part, batch) if isinstance(part, pa.Scalar) else part(batch)


# ---- logic and comparison --------------------------------------------------------------------------------------------


def _nan_or_false(operands: list[Operand], type: pa.DataType) -> pa.Array:
    """The function is_nan; FALSE for NULL."""
    return pc.is_nan(operands[0]).fill_null(False)


def _any_floats(operands: list[Operand]) -> bool:
    return any(pa.types.is_floating(operand.type) for operand in operands)


def _nan_or_null(operand: Operand) -> Operand:
    """Whether the value is NaN; NULL stays NULL."""
    return pc.is_nan(operand)


def _constant_not_nan(operand: Operand) -> bool:
    return isinstance(operand, pa.Scalar) and operand.as_py() == operand.as_py()


def _equal(operands: list[Operand], type: pa.DataType) -> pa.Array:
    left, right = operands
    equal = pc.equal(left, right)
    if not _any_floats(operands) or _constant_not_nan(left) or _constant_not_nan(right):
        return equal
    return pc.or_(equal, pc.and_(_nan_or_null(left), _nan_or_null(right)))


def _not_equal(operands: list[Operand], type: pa.DataType) -> pa.Array:
    return pc.invert(_equal(operands, type))


def _less(operands: list[Operand], type: pa.DataType) -> pa.Array:
    left, right = operands
    if not _any_floats(operands) or _constant_not_nan(right):
        return pc.less(left, right)
    if _constant_not_nan(left):
        return pc.invert(pc.less_equal(right, left))
    return pc.or_(pc.less(left, right), pc.and_(_nan_or_null(right), pc.invert(_nan_or_null(left))))


def _less_or_equal(operands: list[Operand], type: pa.DataType) -> pa.Array:
    left, right = operands
    if not _any_floats(operands):
        return pc.less_equal(left, right)
    return pc.invert(_less([right, left], type))


def _greater(operands: list[Operand], type: pa.DataType) -> pa.Array:
    return _less(operands[::-1], type) if _any_floats(operands) else pc.greater(*operands)


def _greater_or_equal(operands: list[Operand], type: pa.DataType) -> pa.Array:
    return _less_or_equal(operands[::-1], type) if _any_floats(operands) else pc.greater_equal(*operands)


def _is_distinct_from(operands: list[Operand], type: pa.DataType) -> pa.Array:
    left, right = operands
    differ = _not_equal(operands, type)
    return pc.coalesce(differ, pc.xor(pc.is_null(left), pc.is_null(right)))


def _in(operands: list[Operand], type: pa.DataType) -> pa.Array:
    needle, items = operands[0], operands[1:]
    if _any_floats(operands) or not isinstance(needle, pa.Array) or any(isinstance(i, pa.Array) for i in items):
        found = _equal([needle, items[0]], type)
        for item in items[1:]:
            found = pc.or_kleene(found, _equal([needle, item], type))
        return found
    valid = [item for item in items if item.is_valid]
    found = pc.is_in(needle, value_set=pa.array([item.as_py() for item in valid], needle.type))
    if len(valid) < len(items):
        found = pc.or_kleene(found, pa.scalar(None, pa.bool_()))
    return pc.if_else(needle.is_valid(), found, pa.scalar(None, pa.bool_())) if needle.null_count else found


def _extreme(is_better: Callable[[list[Operand], pa.DataType], pa.Array]) -> Kernel:
    """greatest and least, which ignore NULLs. Of equal values the first is the result."""

    def kernel(operands: list[Operand], type: pa.DataType) -> pa.Array:
        best = operands[0]
        for candidate in operands[1:]:
            better = is_better([candidate, best], pa.bool_())
            better = pc.or_kleene(pc.coalesce(better, pa.scalar(False)), pc.is_null(best))
            best = pc.if_else(better, candidate, best)
        return best

    return kernel


def _direct(function: Callable[..., pa.Array]) -> Kernel:
    return lambda operands, _: function(*operands)


KERNELS: dict[str, Kernel] = {
    **ARITHMETIC_KERNELS,
    **DATE_KERNELS,
    **STRING_KERNELS,
    "eq": _equal,
    "ne": _not_equal,
    "lt": _less,
    "le": _less_or_equal,
    "gt": _greater,
    "ge": _greater_or_equal,
    "is_distinct_from": _is_distinct_from,
    "and": _direct(pc.and_kleene),
    "or": _direct(pc.or_kleene),
    "not": _direct(pc.invert),
    "is_null": _direct(pc.is_null),
    "is_not_null": _direct(pc.is_valid),
    "is_nan": _nan_or_false,
    "in": _in,
    "coalesce": _direct(pc.coalesce),
    "greatest": _extreme(_greater),
    "least": _extreme(_less),
}

# Every other function is NULL if an argument is NULL.
_SEES_NULLS = frozenset(
    {"and", "or", "is_null", "is_not_null", "is_nan", "is_distinct_from", "in", "coalesce", "greatest", "least"}
)

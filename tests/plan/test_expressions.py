"""Three-valued logic, TRY rules and typing of scalar expressions, without Spark."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from panewise.errors import BindError
from panewise.language.conversions import common_type, resolve_cast
from panewise.language.expressions import Call, Case, Cast, ColumnRef, Expression, Literal
from panewise.language.functions import FUNCTIONS, resolve, resolve_case
from panewise.plan.expressions.evaluate import KERNELS, compiled, evaluate, selected
from panewise.plan.expressions.spark_sql import PRINTERS, to_spark_sql
from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DataType, decimal
from panewise.temporal import INSTANT_MAX, instant_us
from tests.plan.expression_samples import listed_expressions, nasty_table, random_expressions

NAN, INFINITY = float("nan"), float("inf")


def values(function: str, *columns: tuple[DataType, list[Any]]) -> list[Any]:
    """What a function says row by row of columns given as (type, values)."""
    batch = pa.record_batch({str(i): pa.array(cells, type.to_arrow()) for i, (type, cells) in enumerate(columns)})
    arguments = tuple(ColumnRef(type, str(i)) for i, (type, _) in enumerate(columns))
    return list(evaluate(resolve(function, arguments), batch).to_pylist())


def constant(expression: Expression) -> Any:
    return evaluate(expression, pa.record_batch({"x": [0]}))[0].as_py()


class TestThreeValuedLogic:
    LEFT = (BOOLEAN, [True, True, True, False, False, False, None, None, None])
    RIGHT = (BOOLEAN, [True, False, None, True, False, None, True, False, None])

    def test_and_or_not(self) -> None:
        assert values("and", self.LEFT, self.RIGHT) == [True, False, None, False, False, False, None, False, None]
        assert values("or", self.LEFT, self.RIGHT) == [True, True, True, True, False, None, True, None, None]
        assert values("not", (BOOLEAN, [True, False, None])) == [False, True, None]

    def test_comparison_with_null_is_null_but_distinctness_is_not(self) -> None:
        left, right = (INT, [1, 1, None, None]), (INT, [1, None, 1, None])
        assert values("eq", left, right) == [True, None, None, None]
        assert values("is_distinct_from", left, right) == [False, True, True, False]

    def test_in_with_null_in_the_list(self) -> None:
        batch = pa.record_batch({"x": pa.array([1, 2, None])})
        column = ColumnRef(BIGINT, "x")
        with_null = resolve("in", (column, Literal(BIGINT, 1), Literal(BIGINT, None)))
        without_null = resolve("in", (column, Literal(BIGINT, 1), Literal(BIGINT, 3)))
        assert evaluate(with_null, batch).to_pylist() == [True, None, None]
        assert evaluate(without_null, batch).to_pylist() == [True, False, None]

    def test_selected_drops_null_as_false(self) -> None:
        batch = pa.record_batch({"x": pa.array([True, False, None])})
        assert selected(ColumnRef(BOOLEAN, "x"), batch).to_pydict() == {"x": [True]}

    def test_case_takes_the_first_true_branch(self) -> None:
        batch = pa.record_batch({"p": pa.array([None, False, True]), "q": pa.array([True, None, True])})
        case = resolve_case(
            [(ColumnRef(BOOLEAN, "p"), Literal(INT, 1)), (ColumnRef(BOOLEAN, "q"), Literal(INT, 2))], None
        )
        assert evaluate(case, batch).to_pylist() == [2, None, 1]

    def test_greatest_and_least_skip_nulls(self) -> None:
        assert values("greatest", (INT, [1, None, None]), (INT, [2, 3, None])) == [2, 3, None]
        assert values("least", (DOUBLE, [NAN, None]), (DOUBLE, [1.0, NAN]))[0] == 1.0


class TestTryRules:
    @pytest.mark.parametrize(
        ("function", "type", "left", "right"),
        [
            ("add", INT, 2**31 - 1, 1),
            ("sub", INT, -(2**31), 1),
            ("mul", INT, 2**30, 2),
            ("add", BIGINT, 2**63 - 1, 1),
            ("sub", BIGINT, -(2**63), 1),
            ("mul", BIGINT, -(2**63), -1),
            ("mul", BIGINT, 2**32, 2**31),
            ("integer_divide", BIGINT, -(2**63), -1),
            ("integer_divide", BIGINT, 1, 0),
            ("mod", INT, 1, 0),
            ("div", DOUBLE, 1.0, 0.0),
            ("mod", DOUBLE, 1.0, -0.0),
        ],
    )
    def test_what_has_no_answer_is_null_and_spoils_no_neighbour(
        self, function: str, type: DataType, left: Any, right: Any
    ) -> None:
        before, answer, after, missing = values(function, (type, [6, left, 7, None]), (type, [3, right, 7, 1]))
        assert answer is None
        assert missing is None
        assert before is not None
        assert after is not None

    def test_negating_the_least_number_is_null(self) -> None:
        assert values("neg", (INT, [5, -(2**31)])) == [-5, None]
        assert values("abs", (BIGINT, [-5, -(2**63)])) == [5, None]

    @pytest.mark.parametrize(
        ("text", "type", "expected"),
        [
            ("12", INT, 12),
            (" -7\t", INT, -7),
            ("1.5", INT, None),
            ("2147483648", INT, None),
            ("0x1F", INT, None),
            ("1e3", DOUBLE, 1000.0),
            ("1d", DOUBLE, None),
            ("-Infinity", DOUBLE, -INFINITY),
            ("yes", BOOLEAN, True),
            ("2023-02-29", DATE, None),
            ("2023-02-28 25:00:00", TIMESTAMP, None),
        ],
    )
    def test_texts_are_read_or_null(self, text: str, type: DataType, expected: Any) -> None:
        assert constant(Cast(type, Literal(STRING, text))) == expected

    def test_text_without_a_zone_is_utc(self) -> None:
        batch = pa.record_batch({"s": ["2024-02-29 12:00:00", "2024-02-29T12:00:00+05:30", "2024-02-29"]})
        read = evaluate(resolve_cast(ColumnRef(STRING, "s"), TIMESTAMP), batch)
        expected = ["2024-02-29 12:00:00", "2024-02-29 06:30:00", "2024-02-29"]
        assert read.cast(pa.int64()).to_pylist() == [instant_us(text) for text in expected]

    def test_doubles_that_fit_no_whole_number(self) -> None:
        batch = pa.record_batch({"d": [2.9, -2.9, NAN, INFINITY, 3e9]})
        assert evaluate(resolve_cast(ColumnRef(DOUBLE, "d"), INT), batch).to_pylist() == [2, -2, None, None, None]

    def test_instants_end_with_the_year_9999(self) -> None:
        later = resolve("timestamp_add", (Literal(TIMESTAMP, INSTANT_MAX), Literal(BIGINT, 1)))
        assert constant(later) is None

    def test_decimal_overflow(self) -> None:
        wide = decimal(18, 0)
        assert resolve("add", (ColumnRef(wide, "a"), ColumnRef(wide, "b"))).type == wide
        assert values("add", (wide, [1, 10**18 - 1]), (wide, [2, 1])) == [3, None]


class TestFloats:
    def test_nan_equals_itself_and_is_greatest(self) -> None:
        left, right = (DOUBLE, [NAN, NAN, 1.0, INFINITY]), (DOUBLE, [NAN, INFINITY, NAN, NAN])
        assert values("eq", left, right) == [True, False, False, False]
        assert values("lt", left, right) == [False, False, True, True]
        assert values("le", left, right) == [True, False, True, True]
        assert values("gt", left, right) == [False, True, False, False]
        assert values("ge", left, right) == [True, True, False, False]

    @pytest.mark.parametrize("function", ["eq", "ne", "lt", "le", "gt", "ge"])
    @pytest.mark.parametrize("bound", [0.0, NAN, INFINITY])
    def test_a_constant_side_changes_nothing(self, function: str, bound: float) -> None:
        cells = [NAN, -0.0, 0.0, 1.0, INFINITY, -INFINITY, None]
        batch = pa.record_batch({"d": cells})
        column, literal = ColumnRef(DOUBLE, "d"), Literal(DOUBLE, bound)
        both = (DOUBLE, cells), (DOUBLE, [bound] * len(cells))
        assert evaluate(resolve(function, (column, literal)), batch).to_pylist() == values(function, *both)
        assert evaluate(resolve(function, (literal, column)), batch).to_pylist() == values(function, *both[::-1])

    def test_negative_zero_equals_zero(self) -> None:
        assert values("eq", (DOUBLE, [-0.0]), (DOUBLE, [0.0])) == [True]

    def test_round_is_decimal_and_half_away_from_zero(self) -> None:
        batch = pa.record_batch({"d": [2.675, -2.5, 1.005, 1e300, -0.001, NAN]})
        rounded = evaluate(resolve("round", (ColumnRef(DOUBLE, "d"), Literal(INT, 2))), batch).to_pylist()
        assert rounded[:5] == [2.68, -2.5, 1.01, 1e300, 0.0]
        assert math.copysign(1, rounded[4]) == 1
        assert math.isnan(rounded[5])

    @pytest.mark.parametrize(
        ("value", "text"),
        [(1e7, "1.0E7"), (9999999.0, "9999999.0"), (0.001, "0.001"), (1e-4, "1.0E-4"), (5e-324, "4.9E-324")],
    )
    def test_doubles_print_as_java_prints_them(self, value: float, text: str) -> None:
        assert constant(resolve_cast(Literal(DOUBLE, value), STRING)) == text


class TestTyping:
    @pytest.mark.parametrize(
        ("function", "left", "right", "expected"),
        [
            ("add", INT, INT, INT),
            ("add", INT, BIGINT, BIGINT),
            ("div", INT, INT, DOUBLE),
            ("mul", FLOAT, FLOAT, FLOAT),
            ("mul", FLOAT, INT, DOUBLE),
            ("add", decimal(10, 2), decimal(8, 4), decimal(13, 4)),
            ("mul", decimal(8, 2), decimal(6, 3), decimal(15, 5)),
            ("mul", decimal(10, 2), INT, DOUBLE),
            ("mod", decimal(10, 2), decimal(4, 1), decimal(5, 2)),
            ("sub", TIMESTAMP, TIMESTAMP, BIGINT),
            ("sub", TIMESTAMP, DATE, BIGINT),
            ("sub", DATE, DATE, INT),
        ],
    )
    def test_results_of_arithmetic(self, function: str, left: DataType, right: DataType, expected: DataType) -> None:
        assert resolve(function, (ColumnRef(left, "a"), ColumnRef(right, "b"))).type == expected

    def test_difference_of_instants_is_its_own_function(self) -> None:
        call = resolve("sub", (ColumnRef(TIMESTAMP, "a"), ColumnRef(TIMESTAMP, "b")))
        assert isinstance(call, Call)
        assert call.function == "timestamp_diff"

    def test_conversions_are_explicit(self) -> None:
        call = resolve("lt", (ColumnRef(INT, "a"), ColumnRef(DOUBLE, "b")))
        assert call == Call(BOOLEAN, "lt", (Cast(DOUBLE, ColumnRef(INT, "a")), ColumnRef(DOUBLE, "b")))

    def test_a_text_beside_an_instant_is_read_when_bound(self) -> None:
        call = resolve("ge", (ColumnRef(TIMESTAMP, "ts"), Literal(STRING, "2024-01-01")))
        assert call.children()[1] == Literal(TIMESTAMP, instant_us("2024-01-01"))
        with pytest.raises(BindError, match="not an instant"):
            resolve("ge", (ColumnRef(TIMESTAMP, "ts"), Literal(STRING, "tomorrow")))

    def test_a_null_literal_takes_the_type_of_its_place(self) -> None:
        call = resolve("coalesce", (Literal(STRING, None), ColumnRef(DOUBLE, "d")))
        assert call.type == DOUBLE
        case = resolve_case([(ColumnRef(BOOLEAN, "p"), ColumnRef(DATE, "d"))])
        assert isinstance(case, Case)
        assert case.default == Literal(DATE, None)

    def test_comparison_of_decimals_and_whole_numbers_is_exact(self) -> None:
        equal = values("eq", (decimal(18, 6), [1]), (BIGINT, [2**63 - 1]))
        assert equal == [False]

    @pytest.mark.parametrize(
        ("function", "arguments", "message"),
        [
            ("uper", (STRING,), "no function 'uper'"),
            ("upper", (STRING, STRING), "UPPER takes 1 argument, not 2"),
            ("upper", (INT,), "UPPER takes a STRING here, not an INT"),
            ("add", (STRING, INT), "\\+ takes a number, not a STRING"),
            ("add", (TIMESTAMP, INT), "\\+ cannot take TIMESTAMP and INT"),
            ("eq", (STRING, INT), "= cannot take STRING and INT together"),
            ("and", (BOOLEAN, INT), "AND takes a BOOLEAN here, not an INT"),
            ("like", (STRING, STRING), "LIKE takes a literal"),
            ("coalesce", (DATE, BIGINT), "COALESCE cannot take DATE and BIGINT together"),
        ],
    )
    def test_what_does_not_fit_is_refused_in_words(
        self, function: str, arguments: tuple[DataType, ...], message: str
    ) -> None:
        with pytest.raises(BindError, match=message) as caught:
            resolve(function, tuple(ColumnRef(type, "x") for type in arguments))
        assert caught.value.span is None

    def test_unknown_names_come_with_a_suggestion(self) -> None:
        with pytest.raises(BindError) as caught:
            resolve("uper", (ColumnRef(STRING, "s"),))
        assert caught.value.hint is not None
        assert "upper" in caught.value.hint

    def test_casts_between_numbers_and_instants_are_refused(self) -> None:
        with pytest.raises(BindError, match="BIGINT cannot be cast to TIMESTAMP"):
            resolve_cast(ColumnRef(BIGINT, "b"), TIMESTAMP)

    def test_common_type_is_symmetric(self) -> None:
        types = [BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, decimal(10, 2), decimal(18, 0), STRING, DATE, TIMESTAMP]
        for first in types:
            for second in types:
                assert common_type(first, second) == common_type(second, first)


class TestEvaluation:
    def test_a_bare_column_is_not_copied(self) -> None:
        array = pa.array([1, 2, 3])
        batch = pa.record_batch({"x": array})
        found = evaluate(ColumnRef(BIGINT, "x"), batch)
        assert found.buffers()[1].address == array.buffers()[1].address

    def test_a_source_selects_among_qualified_columns(self) -> None:
        batch = pa.record_batch({"a.x": [1], "b.x": [2], "y": [3]})
        assert evaluate(ColumnRef(BIGINT, "x", "b"), batch).to_pylist() == [2]
        assert evaluate(ColumnRef(BIGINT, "y", "b"), batch).to_pylist() == [3]

    @pytest.mark.parametrize("function", ["eq", "is_distinct_from", "coalesce", "concat", "in", "contains"])
    def test_dictionary_columns_give_what_plain_ones_give(self, function: str) -> None:
        plain = pa.array(["a", None, "b", "a", None, "c", "a"])
        call = resolve(function, (ColumnRef(STRING, "s"), Literal(STRING, "a")))
        expected = evaluate(call, pa.record_batch({"s": plain})).to_pylist()
        encoded = pa.record_batch({"s": plain.dictionary_encode()})
        assert evaluate(call, encoded).to_pylist() == expected
        assert evaluate(call, encoded.slice(2, 3)).to_pylist() == expected[2:5]

    def test_every_function_is_evaluated_and_printed(self) -> None:
        rewritten_when_bound = {"nullif", "if", "date_sub", "to_date", "to_timestamp"}
        assert set(KERNELS) == set(FUNCTIONS) - rewritten_when_bound
        assert set(PRINTERS) == set(KERNELS)

    def test_answers_do_not_depend_on_the_slice(self) -> None:
        batch = nasty_table()
        for expression in [*listed_expressions()[::5], *random_expressions(200, seed=3)]:
            evaluator = compiled(expression)
            whole = evaluator(batch)
            assert whole.type == expression.type.to_arrow()
            part = evaluator(batch.slice(17, 40))
            # repr makes NaN equal to itself.
            assert repr(part.to_pylist()) == repr(whole.slice(17, 40).to_pylist()), to_spark_sql(expression)
            assert len(evaluator(batch.slice(0, 0))) == 0


class TestSparkText:
    def test_names_and_literals(self) -> None:
        assert to_spark_sql(ColumnRef(INT, "odd `name`", "t")) == "`t`.`odd ``name```"
        assert to_spark_sql(Literal(STRING, "it's \\ é")) == "'it\\'s \\\\ \\u00e9'"
        assert to_spark_sql(Literal(DOUBLE, NAN)) == "CAST('NaN' AS DOUBLE)"
        assert to_spark_sql(Literal(TIMESTAMP, 5)) == "timestamp_micros(5L)"
        assert to_spark_sql(Literal(DATE, None)) == "CAST(NULL AS DATE)"

    def test_sums_of_constants_are_kept_from_being_regrouped(self) -> None:
        inner = resolve("add", (ColumnRef(BIGINT, "b"), Literal(BIGINT, 5)))
        outer = resolve("add", (inner, Literal(BIGINT, 7)))
        assert to_spark_sql(outer) == "try_add(try_subtract(try_add(`b`, 5L), 0L), 7L)"

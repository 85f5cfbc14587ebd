"""One form for expressions with the same meaning, so that equal selections and groupings are recognised.

Operands of commutative operators are put in a fixed order. Chains of AND and OR are flattened, sorted and freed of
repetitions. `>` and `>=` become `<` and `<=`. Values do not change: exact arithmetic commutes, and so does
floating-point addition of two operands. Operands are ordered by their written texts, because stored names of states
contain them.
"""

from __future__ import annotations

from panewise.language.expressions import Call, Expression, chained, rewritten
from panewise.plan.expressions.written_names import written

_COMMUTATIVE = {"add", "mul", "eq", "ne", "is_distinct_from"}
_FLIPPED = {"gt": "lt", "ge": "le"}


def canonical(expression: Expression) -> Expression:
    """The canonical form: equal for all expressions that this module recognises as having the same meaning."""

    def change(node: Expression) -> Expression | None:
        if not isinstance(node, Call):
            return None
        if node.function in ("and", "or"):
            return _chain(node)
        arguments = tuple(canonical(argument) for argument in node.arguments)
        function = node.function
        if function in _FLIPPED:
            function, arguments = _FLIPPED[function], arguments[::-1]
        elif function in _COMMUTATIVE:
            arguments = tuple(sorted(arguments, key=written))
        return Call(node.type, function, arguments)

    return rewritten(expression, change)


def _chain(node: Call) -> Expression:
    """A chain of one connective, flattened, sorted and without repetitions."""
    parts: list[Expression] = []

    def collect(part: Expression) -> None:
        if isinstance(part, Call) and part.function == node.function:
            for argument in part.arguments:
                collect(argument)
        else:
            parts.append(canonical(part))

    collect(node)
    return chained(sorted(set(parts), key=written), lambda left, right: Call(node.type, node.function, (left, right)))

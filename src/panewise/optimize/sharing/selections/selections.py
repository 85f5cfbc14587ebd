"""Selections: the rows that a WHERE clause keeps, in a form that shows whether two keep equal or disjoint rows.

A selection is a disjunction of terms, and a term is a conjunction of atoms `subject in values`. A subject is a column
or any other row expression. A predicate that does not compare with a constant (`a < b`, LIKE, CASE) is itself a
subject, whose value must be TRUE. WHERE keeps the rows whose predicate is TRUE. So NOT moves inward by exchanging the
rows for which a predicate is TRUE with those for which it is FALSE. Rows for which it is NULL are in neither.

    size > 10 AND NOT (tag IN ('a', 'b') OR urgent)   ->   size in [11, ..)  and  tag in not {a, b, NULL}  and
                                                           urgent in {FALSE}

Invariant: if `disjoint`, `implies` or `equal` is true, it holds for every row. They may be false although it holds:
they treat subjects as independent of each other, and give up if a predicate has more than 128 terms or a comparison
takes more than 10,000 steps. Terms follow Golab 2006, section 8.3.3, with conjunctions, ranges and NULL added.

>>> from panewise.language.expressions import ColumnRef, Literal
>>> from panewise.language.functions import resolve
>>> from panewise.schema import INT
>>> size = ColumnRef(INT, "size")
>>> small, large = (resolve(name, (size, Literal(INT, 10))) for name in ("lt", "ge"))
>>> disjoint(analysed(small), analysed(large)), implies(analysed(small), analysed(None))
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from panewise.language.expressions import Call, Cast, Expression, Literal, Value
from panewise.optimize.sharing.selections.value_sets import ValueSet, compared, domain_of, nothing, one_of, only_null
from panewise.plan.expressions.canonical import canonical
from panewise.schema import BOOLEAN, DataType

TERMS_MAX = 128
STEPS_MAX = 10_000


@dataclass(frozen=True, order=True)
class Subject:
    """A row expression. It is compared by its printed form, whose hash Python caches."""

    name: str
    expression: Expression = field(compare=False, repr=False)


Box = dict[Subject, ValueSet]


@dataclass(frozen=True)
class Term:
    """A conjunction. A subject appears at most once, and never with all of its values. No atoms means every row."""

    atoms: tuple[tuple[Subject, ValueSet], ...]

    @cached_property
    def box(self) -> Mapping[Subject, ValueSet]:
        return dict(self.atoms)


@dataclass(frozen=True)
class Selection:
    """A disjunction of terms that are not empty. No terms means no row."""

    terms: tuple[Term, ...]

    @cached_property
    def subjects(self) -> frozenset[Subject]:
        return frozenset(subject for term in self.terms for subject, _ in term.atoms)


EVERY_ROW = Selection((Term(()),))
NO_ROW = Selection(())


class _TooManyTerms(Exception):
    """Raised if the disjunctive form is too large. Then the whole predicate becomes one subject."""


def analysed(where: Expression | None) -> Selection:
    """The selection of a WHERE clause. None keeps every row."""
    if where is None:
        return EVERY_ROW
    try:
        return _normal(_rows(where, True))
    except _TooManyTerms:
        return _normal(_opaque(where, True))


# ---- comparing -------------------------------------------------------------------------------------------------------


def disjoint(first: Selection, second: Selection) -> bool:
    """Whether no row is in both."""
    return not any(_meet(one.box, other.box) for one in first.terms for other in second.terms)


def implies(first: Selection, second: Selection) -> bool:
    """Whether every row of the first is in the second."""
    if first == second:
        return True
    if len(first.terms) == len(second.terms) == 1:
        return _within(first.terms[0].box, second.terms[0].box)
    steps = iter(range(STEPS_MAX))
    return all(_covered(term.box, [other.box for other in second.terms], steps) for term in first.terms)


def equal(first: Selection, second: Selection) -> bool:
    """Whether both keep the same rows."""
    return first == second or (implies(first, second) and implies(second, first))


def _meet(first: Mapping[Subject, ValueSet], second: Mapping[Subject, ValueSet]) -> bool:
    """Whether the two boxes have common rows: their values meet for every subject."""
    few, many = (first, second) if len(first) <= len(second) else (second, first)
    for subject, values in few.items():
        others = many.get(subject)
        if others is not None and not values.meets(others):
            return False
    return True


def _within(box: Mapping[Subject, ValueSet], other: Mapping[Subject, ValueSet]) -> bool:
    for subject, values in other.items():
        own = box.get(subject)
        if own is None or not own <= values:
            return False
    return True


def _covered(box: Mapping[Subject, ValueSet], others: list[Mapping[Subject, ValueSet]], steps: Iterator[int]) -> bool:
    """Whether the others together contain the box: the part outside of the first must be covered by the rest."""
    if next(steps, None) is None:
        return False
    near = [other for other in others if _meet(box, other)]
    if not near:
        return False
    if any(_within(box, other) for other in near):
        return True
    if len(near) == 1:
        return False
    first, rest = near[0], near[1:]
    inside = dict(box)
    for subject, values in first.items():
        outside = ~values & inside[subject] if subject in inside else ~values
        if not outside.empty and not _covered({**inside, subject: outside}, rest, steps):
            return False
        inside[subject] = inside[subject] & values if subject in inside else values
    return True


# ---- predicates to boxes ---------------------------------------------------------------------------------------------

_FLIPPED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
# Comparisons of two expressions that are not constant, in terms of `eq` and `lt`: (function, whether operands are
# exchanged, truth). This is allowed because all of them are NULL for the same operands, and every order is total.
_BY_EQUAL_AND_LESS = {
    "eq": ("eq", False, True),
    "lt": ("lt", False, True),
    "gt": ("lt", True, True),
    "ge": ("lt", False, False),
    "le": ("lt", True, False),
}


def _rows(predicate: Expression, truth: bool) -> list[Box]:
    """The rows for which the predicate has this truth value, as a union of boxes."""
    if not predicate.columns():
        return [{}] if _constant(predicate) is truth else []
    if not isinstance(predicate, Call):
        return _opaque(predicate, truth)
    arguments = predicate.arguments
    match predicate.function:
        case "not":
            return _rows(arguments[0], not truth)
        case "and" | "or":
            parts = [_rows(argument, truth) for argument in arguments]
            return _union(parts) if (predicate.function == "or") == truth else _intersection(parts)
        case "ne":
            return _rows(Call(BOOLEAN, "eq", arguments), not truth)
        case "eq" | "lt" | "le" | "gt" | "ge":
            return _compared(predicate.function, arguments[0], arguments[1], truth)
        case "in":
            return _listed(arguments[0], arguments[1:], truth)
        case "is_null" | "is_not_null":
            subject, type = _subject(arguments[0])
            null = only_null(domain_of(type))
            return [{subject: null if (predicate.function == "is_null") == truth else ~null}]
        case "is_nan":
            subject, type = _subject(arguments[0])
            values = compared(domain_of(type), "eq", float("nan"))
            return [{subject: values if truth else ~values}]
        case "is_distinct_from":
            return _distinct(predicate, truth)
        case _:
            return _opaque(predicate, truth)


def _opaque(predicate: Expression, truth: bool) -> list[Box]:
    subject, type = _subject(predicate)
    return [{subject: compared(domain_of(type), "eq", truth)}]


def _compared(function: str, left: Expression, right: Expression, truth: bool) -> list[Box]:
    if not left.columns():
        left, right, function = right, left, _FLIPPED[function]
    if right.columns():
        base, exchanged, meant = _BY_EQUAL_AND_LESS[function]
        operands = (right, left) if exchanged else (left, right)
        return _opaque(Call(BOOLEAN, base, operands), truth is meant)
    value = _constant(right)
    if value is None:
        return []
    subject, type = _subject(left)
    values = compared(domain_of(type), function, value)
    return [{subject: values if truth else values.other_values()}]


def _listed(needle: Expression, items: tuple[Expression, ...], truth: bool) -> list[Box]:
    """IN is a chain of equalities joined by OR. With a NULL in the list it is TRUE or NULL, but never FALSE."""
    if not needle.columns() or any(item.columns() for item in items):
        parts = [_rows(Call(BOOLEAN, "eq", (needle, item)), truth) for item in items]
        return _union(parts) if truth else _intersection(parts)
    values = [_constant(item) for item in items]
    subject, type = _subject(needle)
    found = one_of(domain_of(type), [value for value in values if value is not None])
    if truth:
        return [{subject: found}]
    return [] if None in values else [{subject: found.other_values()}]


def _distinct(predicate: Call, truth: bool) -> list[Box]:
    left, right = predicate.arguments
    if not left.columns():
        left, right = right, left
    if right.columns():
        return _opaque(predicate, truth)
    subject, type = _subject(left)
    value = _constant(right)
    same = only_null(domain_of(type)) if value is None else compared(domain_of(type), "eq", value)
    return [{subject: ~same if truth else same}]


def _union(parts: Iterable[list[Box]]) -> list[Box]:
    boxes = [box for part in parts for box in part]
    if len(boxes) > TERMS_MAX:
        boxes = [dict(term.atoms) for term in _normal(boxes).terms]
    if len(boxes) > TERMS_MAX:
        raise _TooManyTerms
    return boxes


def _intersection(parts: Iterable[list[Box]]) -> list[Box]:
    boxes: list[Box] = [{}]
    for part in parts:
        if len(boxes) * len(part) > TERMS_MAX**2:
            raise _TooManyTerms
        boxes = _union([[_both(box, other) for box in boxes for other in part if _meet(box, other)]])
    return boxes


def _both(first: Box, second: Box) -> Box:
    return first | {s: values & first[s] if s in first else values for s, values in second.items()}


# ---- subjects and constants ------------------------------------------------------------------------------------------


def _subject(expression: Expression) -> tuple[Subject, DataType]:
    """The expression without conversions that keep every value and the order, so that CAST(size) is `size`."""
    while isinstance(expression, Cast) and _lossless(expression.operand.type, expression.type):
        expression = expression.operand
    found = canonical(expression)
    return Subject(repr(found), found), found.type


def _lossless(source: DataType, target: DataType) -> bool:
    if source.name == target.name == "DECIMAL":
        return target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
    if source.integral and target.name == "DECIMAL":
        return target.precision - target.scale >= (10 if source.name == "INT" else 19)
    return (source.name, target.name) in {("INT", "BIGINT"), ("INT", "DOUBLE"), ("FLOAT", "DOUBLE")}


def _constant(expression: Expression) -> Value:
    """The value of an expression without columns. Timestamps and dates are numbers since the epoch, as in literals."""
    if isinstance(expression, Literal) and (expression.type.integral or expression.type.name in ("STRING", "BOOLEAN")):
        return expression.value
    import pyarrow as pa

    from panewise.plan.expressions.evaluate import compiled

    one_row = pa.record_batch({"row": pa.array([0])})
    array = compiled(expression)(one_row)
    if expression.type.name in ("DATE", "TIMESTAMP"):
        array = array.view(pa.int32() if expression.type.name == "DATE" else pa.int64())
    value: Value = array[0].as_py()
    return value


# ---- one form --------------------------------------------------------------------------------------------------------


def _normal(boxes: Iterable[Box]) -> Selection:
    """The selection without empty terms, atoms of all values and terms within others.

    Terms that differ in only one subject are united.
    """
    atoms = {
        tuple(sorted((item for item in box.items() if not item[1].everything), key=lambda item: item[0]))
        for box in boxes
        if not any(values.empty for values in box.values())
    }
    # Atoms have no natural order, so terms are sorted by their printed form.
    found = [Term(term) for term in sorted(atoms, key=repr)]
    joined = True
    while joined and len(found) > 1:
        found, joined = _joined(found)
    kept: list[Term] = []
    for position, term in enumerate(found):
        others = kept + found[position + 1 :]
        if not any(_within(term.box, other.box) for other in others):
            kept.append(term)
    return Selection(tuple(kept))


def _joined(found: list[Term]) -> tuple[list[Term], bool]:
    """One pass that unites terms that differ only in the values of one subject. Also whether any were united."""
    for subject in sorted({subject for term in found for subject, _ in term.atoms}):
        alike: dict[tuple[tuple[Subject, ValueSet], ...], list[Term]] = {}
        untouched: list[Term] = []
        for term in found:
            if subject in term.box:
                alike.setdefault(tuple(atom for atom in term.atoms if atom[0] != subject), []).append(term)
            else:
                untouched.append(term)
        if any(len(group) > 1 for group in alike.values()):
            return [*untouched, *(_united(subject, rest, group) for rest, group in alike.items())], True
    return found, False


def _united(subject: Subject, rest: tuple[tuple[Subject, ValueSet], ...], group: list[Term]) -> Term:
    values = nothing(group[0].box[subject].domain)
    for term in group:
        values = values | term.box[subject]
    atoms = rest if values.everything else (*rest, (subject, values))
    return Term(tuple(sorted(atoms, key=lambda atom: atom[0])))

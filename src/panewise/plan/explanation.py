"""EXPLAIN: a plan as text for people and as a dict for programs.

The text is stable: one node a line, its inputs indented below it, the update pattern of its output at the end of the
line. `str(...)` gives the text and `.to_dict()` the same content as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from panewise.language.sql_text import to_sql
from panewise.plan.nodes import (
    Aggregate,
    Distinct,
    Emit,
    Filter,
    Join,
    Negate,
    Node,
    Project,
    Scan,
    Union,
    WindowOf,
)

Properties = dict[str, Any]


@dataclass(frozen=True)
class Explanation:
    """One node of a plan: its title, its properties, including those that the host adds, and its inputs."""

    title: str
    properties: Properties = field(default_factory=dict)
    inputs: tuple[Explanation, ...] = ()

    def saying(self, more: Mapping[str, Any]) -> Explanation:
        """This explanation with further properties."""
        return replace(self, properties={**self.properties, **more})

    def to_dict(self) -> Properties:
        return {"node": self.title, **self.properties, "inputs": [part.to_dict() for part in self.inputs]}

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> list[str]:
        details = ", ".join(
            str(value) if name == "pattern" else f"{name}: {value}" for name, value in self.properties.items()
        )
        line = "  " * depth + self.title + (f"  <{details}>" if details else "")
        return [line, *(inner for part in self.inputs for inner in part._lines(depth + 1))]


def shared_with(others: int) -> str:
    """The words that say with how many other queries something is shared."""
    return "alone" if not others else f"shared with {others} other " + ("query" if others == 1 else "queries")


def explain(node: Node) -> Explanation:
    """The explanation of a plan."""
    return Explanation(_title(node), {"pattern": node.pattern.name}, tuple(explain(part) for part in node.children()))


def _title(node: Node) -> str:
    match node:
        case Scan(name=name, kind=kind):
            return f"{kind.upper()} {name}"
        case WindowOf(window=window):
            return f"WINDOW {window}"
        case Filter(predicate=predicate, input=input_):
            word = "HAVING" if isinstance(input_, Aggregate) else "WHERE"
            return f"{word} {to_sql(predicate)}"
        case Aggregate():
            return _aggregate_title(node)
        case Project(items=items):
            return "SELECT " + ", ".join(
                to_sql(i.expression) if to_sql(i.expression) == i.name else f"{to_sql(i.expression)} AS {i.name}"
                for i in items
            )
        case Join(condition=condition):
            return "JOIN" + (f" ON {to_sql(condition)}" if condition is not None else "")
        case Distinct():
            return "DISTINCT"
        case Negate(kind=kind) | Union(kind=kind):
            return kind
        case Emit(emission=emission, restore=restore):
            return emission.value + (" RESTORE" if restore else "")
        case _:
            raise AssertionError(node)


def _aggregate_title(node: Aggregate) -> str:
    answers = ", ".join(
        f"aggregate_{i} = {a.bound.text(', '.join(map(to_sql, a.arguments)) or '*')}"
        for i, a in enumerate(node.aggregates)
    )
    keys = ", ".join(f"key_{i} = {to_sql(key)}" for i, key in enumerate(node.keys))
    return "AGGREGATE" + (f" BY {keys}" if keys else "") + (f": {answers}" if answers else "")

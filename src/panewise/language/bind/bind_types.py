"""Binds the names of types."""

from __future__ import annotations

from panewise.errors import did_you_mean
from panewise.language.bind.binding import Binding
from panewise.language.parse.syntax import TypeName
from panewise.schema import TYPE_NAMES, DataType, decimal

# Names of types in other systems. They are refused with a hint that names ours.
_FOREIGN_NAMES = {
    "BOOL": "BOOLEAN",
    "INTEGER": "INT",
    "INT4": "INT",
    "SMALLINT": "INT",
    "TINYINT": "INT",
    "INT8": "BIGINT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}


def bind_type(node: TypeName, binding: Binding) -> DataType:
    """One of the nine types; BindError for any other name."""
    name: str = node.this
    if name not in TYPE_NAMES:
        known = _FOREIGN_NAMES.get(name)
        near = did_you_mean(name, TYPE_NAMES)
        listed = near if near.startswith("did you mean") else "types are " + ", ".join(TYPE_NAMES)
        hint = f"write {known}" if known else listed
        raise binding.error(f"there is no type {name}", node, hint)
    numbers = node.expressions
    if name != "DECIMAL":
        if numbers:
            raise binding.error(f"{name} takes no length", node, f"write {name}")
        return DataType(name)
    if not numbers:
        return decimal(10, 0)
    if len(numbers) > 2 or not all(number.this.isdigit() and len(number.this) < 6 for number in numbers):
        raise binding.error("DECIMAL takes a number of digits and a scale", node, "write DECIMAL(10, 2)")
    with binding.at(node):
        return decimal(int(numbers[0].this), int(numbers[1].this) if len(numbers) == 2 else 0)

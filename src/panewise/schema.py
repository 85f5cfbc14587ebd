"""Types and columns, to and from Arrow.

There are nine types: BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p <= 18, s), STRING, DATE, TIMESTAMP (microseconds,
UTC). Names keep their declared spelling and are looked up without regard to case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from panewise.errors import BindError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class DataType:
    """One of the nine types; DECIMAL carries precision and scale."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def integral(self) -> bool:
        return self.name in ("INT", "BIGINT")

    @property
    def fractional(self) -> bool:
        return self.name in ("FLOAT", "DOUBLE")

    @property
    def numeric(self) -> bool:
        return self.integral or self.fractional or self.name == "DECIMAL"

    @property
    def is_wide(self) -> bool:
        """Whether it is a DECIMAL, made for a comparison, whose digits a 64-bit integer does not hold."""
        return self.name == "DECIMAL" and self.precision > 18

    def to_arrow(self) -> pa.DataType:
        import pyarrow as pa

        match self.name:
            case "BOOLEAN":
                return pa.bool_()
            case "INT":
                return pa.int32()
            case "BIGINT":
                return pa.int64()
            case "FLOAT":
                return pa.float32()
            case "DOUBLE":
                return pa.float64()
            case "DECIMAL":
                return pa.decimal128(self.precision, self.scale)
            case "STRING":
                return pa.string()
            case "DATE":
                return pa.date32()
            case _:
                return pa.timestamp("us", tz="UTC")


BOOLEAN = DataType("BOOLEAN")
INT = DataType("INT")
BIGINT = DataType("BIGINT")
FLOAT = DataType("FLOAT")
DOUBLE = DataType("DOUBLE")
STRING = DataType("STRING")
DATE = DataType("DATE")
TIMESTAMP = DataType("TIMESTAMP")
TYPE_NAMES = ("BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "DATE", "TIMESTAMP")


def decimal(precision: int, scale: int) -> DataType:
    """DECIMAL(precision, scale), refused past 18 digits."""
    if not 1 <= precision <= 18 or not 0 <= scale <= precision:
        raise BindError(
            f"DECIMAL({precision}, {scale}) is not supported", hint="DECIMAL takes 1 to 18 digits, scale within them"
        )
    return DataType("DECIMAL", precision, scale)


def from_arrow(arrow: pa.DataType) -> DataType | None:
    """The type that holds an Arrow type's values, or None if there is none."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(arrow):
        return from_arrow(arrow.value_type)
    if types.is_boolean(arrow):
        return BOOLEAN
    if types.is_int8(arrow) or types.is_int16(arrow) or types.is_int32(arrow) or types.is_uint8(arrow):
        return INT
    if types.is_uint16(arrow):
        return INT
    if types.is_int64(arrow) or types.is_uint32(arrow):
        return BIGINT
    if types.is_float16(arrow) or types.is_float32(arrow):
        return FLOAT
    if types.is_float64(arrow):
        return DOUBLE
    if types.is_decimal128(arrow) and arrow.precision <= 18 and 0 <= arrow.scale <= arrow.precision:
        return DataType("DECIMAL", arrow.precision, arrow.scale)
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return STRING
    if types.is_date32(arrow):
        return DATE
    if types.is_timestamp(arrow):
        return TIMESTAMP
    return None


@dataclass(frozen=True)
class Column:
    """A name and a type."""

    name: str
    type: DataType

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True)
class Schema:
    """An ordered list of columns.

    >>> str(Schema((Column("symbol", STRING), Column("price", DOUBLE))))
    'symbol STRING, price DOUBLE'
    """

    columns: tuple[Column, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.columns))

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name.lower(): column for column in reversed(self.columns)}

    def find(self, name: str) -> Column | None:
        return self._by_name.get(name.lower())

    def __getitem__(self, name: str) -> Column:
        column = self.find(name)
        if column is None:
            raise BindError(f"there is no column '{name}'", hint=did_you_mean(name, self.names))
        return column

    def to_arrow(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(column.name, column.type.to_arrow()) for column in self.columns])

    @staticmethod
    def from_arrow(arrow: pa.Schema) -> Schema:
        columns = []
        for field in arrow:
            found = from_arrow(field.type)
            if found is None:
                raise BindError(f"column '{field.name}' has the Arrow type {field.type}, which panewise does not hold")
            columns.append(Column(field.name, found))
        return Schema(tuple(columns))

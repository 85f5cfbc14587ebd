"""Keys of every kind, in any number: what a probe or a range finds is what a plain filter finds."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from panewise.archive import key_directory
from panewise.archive.archive import Archive
from panewise.archive.key_directory import KeyDirectory, row_group_ends
from panewise.archive.layout import Layout
from panewise.errors import ArchiveError

ONE_FILE = Layout(1, 1, 1, 9)
KEYS: dict[str, tuple[Any, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None]),
    "int": (pa.int32(), [*range(-40, 40, 3), -(2**31), 2**31 - 1, None]),
    "bigint": (pa.int64(), [*range(60), -(2**63), 2**63 - 1, None]),
    "double": (pa.float64(), [0.0, -0.0, math.inf, -math.inf, *(n / 7 for n in range(-40, 40)), None]),
    "double with NaN": (pa.float64(), [0.0, math.nan, 1.5, *map(float, range(2, 50)), None]),
    "decimal": (pa.decimal128(9, 2), [*(Decimal(n) / 4 for n in range(-30, 30)), None]),
    "string": (pa.string(), ["", "a", "z" * 5_000, "ü", "\U0001f600", *(f"k{n}" for n in range(50)), None]),
    "date": (pa.date32(), [*(date(1969, 12, 1) + timedelta(n) for n in range(60)), None]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [*(datetime(1969, 1, n, tzinfo=UTC) for n in range(1, 30)), None]),
}


def _rows(keys: list[Any], kind: Any) -> pa.Table:
    count = len(keys)
    columns = {"key": pa.array(keys, kind), "number": range(count), "_inserted": [1] * count, "_expires": [9] * count}
    return pa.table(columns)


def _same(one: Any, other: Any) -> bool:
    return one is None if other is None else one is not None and bool(one == other)


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_are_found(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_directory, "BYTES_MIN", 64)  # so that a small file has many row groups
    chance = random.Random(kind)
    arrow, values = KEYS[kind]
    keys = [chance.choice(values) for _ in range(3_000)]
    schema = pa.schema([("key", arrow), ("number", pa.int64())])
    with Archive.create(tmp_path, schema, key="key", layout=ONE_FILE) as archive:
        archive.update(1, _rows(keys, arrow))
        for _ in range(40):
            asked = chance.sample(values, chance.randint(1, len(values)))
            found = sorted(archive.probe(asked, columns=["number"])["number"].to_pylist())
            assert found == [number for number, key in enumerate(keys) if any(_same(key, one) for one in asked)]
            low, high = (chance.choice(values) for _ in range(2))
            if any(isinstance(end, float) and math.isnan(end) for end in (low, high)):
                continue
            found = sorted(archive.range(low, high, columns=["number"])["number"].to_pylist())
            open_ended = low is None and high is None
            assert found == [
                number
                for number, key in enumerate(keys)
                if open_ended or (key is not None and (low is None or key >= low) and (high is None or key <= high))
            ]


def test_keys_of_several_columns_in_any_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_directory, "BYTES_MIN", 256)
    chance = random.Random(5)
    keys = [(chance.choice(["a", "b", "c", None]), chance.choice([*range(30), None])) for _ in range(2_000)]
    schema = pa.schema([("host", pa.string()), ("port", pa.int64()), ("number", pa.int64())])
    own = {"host": [key[0] for key in keys], "port": [key[1] for key in keys], "number": range(2_000)}
    with Archive.create(tmp_path, schema, key=["host", "port"], layout=ONE_FILE) as archive:
        archive.update(1, pa.table({**own, "_inserted": [1] * 2_000, "_expires": [9] * 2_000}, schema=None))
        for count in (1, 2, 40, 500):
            asked = [(chance.choice(["a", "b", "x", None]), chance.choice([*range(40), None])) for _ in range(count)]
            found = sorted(archive.probe(asked, columns=["number"])["number"].to_pylist())
            assert found == [number for number, key in enumerate(keys) if key in asked]
        every = [(host, port) for host in ("a", None) for port in (*range(2, 20_000), None)]
        found = sorted(archive.probe(every, columns=["number"])["number"].to_pylist())
        assert found == [number for number, key in enumerate(keys) if key[0] in ("a", None) and key[1] not in (0, 1)]
        with pytest.raises(ArchiveError, match="too many for one read"):
            archive.probe([(str(port), port) for port in range(2_000)])


def test_many_keys_are_no_deep_recursion(tmp_path: Path) -> None:
    schema = pa.schema([("key", pa.int64()), ("number", pa.int64())])
    with Archive.create(tmp_path, schema, key="key", layout=ONE_FILE) as archive:
        archive.update(1, _rows([7, None, 30_000], pa.int64()))
        assert archive.probe([None, *range(20_000)]).num_rows == 2


def test_what_is_no_key_is_said_to_be_none(tmp_path: Path) -> None:
    schema = pa.schema([("key", pa.int64()), ("number", pa.int64())])
    with Archive.create(tmp_path, schema, key="key", layout=ONE_FILE) as archive:
        archive.update(1, _rows([1, 2], pa.int64()))
        for value in (1.5, 2**70, "x", b"x"):
            with pytest.raises(ArchiveError, match="is not a value of the key column 'key'"):
                archive.probe(value)
        with pytest.raises(ArchiveError, match="is not a value"):
            archive.range(1.5, 2.5)
        assert archive.probe(2.0).num_rows == 1
        for where in (pc.field("nope") == 1, pc.field("number") == "x", "number = 1"):
            with pytest.raises(ArchiveError, match="the condition does not fit the archive"):
                archive.scan(where=where)
        with pytest.raises(ArchiveError, match="is not a valid instant"):
            archive.scan(at=2**63)


def test_row_groups_end_where_keys_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_directory, "BYTES_MIN", 100)
    monkeypatch.setattr(key_directory, "BYTES_MAX", 1_000)
    chance = random.Random(3)
    for _ in range(50):
        keys = sorted(chance.choices(range(40), k=chance.randint(1, 400))) + [100] * chance.choice([0, 900])
        rows = pa.table({"key": keys})
        ends = row_group_ends(rows, ["key"])
        assert ends[-1] == len(keys) and ends == sorted(set(ends))
        lengths = [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        assert max(lengths) <= 126
        # A group ends inside a key only where the key is larger than a group may be.
        assert all(keys[end - 1] != keys[end] or keys.count(keys[end]) > 100 for end in ends[:-1])


def test_a_directory_finds_what_a_look_at_every_group_finds() -> None:
    chance = random.Random(4)
    for _ in range(200):
        borders = sorted(chance.choices(range(30), k=20))
        least, greatest = borders[::2], borders[1::2]
        directory = KeyDirectory(least, greatest)
        spans = [(chance.choice([None, *range(30)]), chance.choice([None, *range(30)])) for _ in range(3)]
        met = [
            group
            for group, (low, high) in enumerate(zip(least, greatest, strict=True))
            if any((end is None or low <= end) and (begin is None or high >= begin) for begin, end in spans)
        ]
        assert directory.row_groups(spans) == met

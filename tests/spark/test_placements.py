"""Fragments of a program: which queries are computed together, and what a checkpoint says of that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import panewise as pw
from panewise.spark.environment.folder import Folder
from panewise.spark.program.changes import Change, read_change, write_change
from panewise.spark.program.known_programs import read_program
from panewise.spark.program.program import Program
from tests.spark.test_books import begun, pipeline_of

STREAMS = ["CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT)", "CREATE STREAM b (ts TIMESTAMP, k BIGINT, v BIGINT)"]
THETA = "FROM a [RANGE {0} SECONDS{1}] AS x, b [RANGE {0} SECONDS{1}] AS y WHERE x.v < y.v"
PAIRS = f"CREATE QUERY pairs AS SELECT x.k {THETA.format(9, '')}"
SPREAD = f"CREATE QUERY spread AS SELECT MAX(x.v) AS m {THETA.format(4, ' SLIDE 2 SECONDS')}"
THIRD = SPREAD.replace("spread", "third")


def fragments(program: Program) -> dict[str, int]:
    return {name: query.fragment for name, query in program.newest.queries.items()}


def test_two_theta_joins_are_one_fragment_and_are_explained_as_one(tmp_path: Path) -> None:
    pipeline = pipeline_of(*STREAMS, PAIRS, SPREAD)
    before = pipeline.explain()
    begun(pipeline, tmp_path, *STREAMS, PAIRS, SPREAD)
    explained = pipeline.explain()
    assert explained == before
    assert "  FRAGMENT 1 OVER a, b  <queries: 2, rows: together, buckets: 1>" in explained
    assert explained.count("JOIN a, b FOR 2 SETS OF WINDOWS  <queries: 2>") == 1
    assert "  fragment 1 over a, b answers pairs, spread" in explained


def test_a_family_of_queries_in_parentheses_is_computed_once() -> None:
    inner = "(SELECT k, SUM(v) AS s FROM a [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k)"
    queries = [
        f"CREATE QUERY q{number} AS SELECT MAX(s) AS m FROM {inner} [ROWS {number} SLIDE 1]" for number in (2, 3)
    ]
    explained = pipeline_of(*STREAMS, *queries).explain()
    assert "FRAGMENT 1 OVER a  <queries: 2, rows: together, buckets: 1>" in explained
    assert explained.count("FAMILY BY k  <queries: 2,") == 1


def numbers(change: Change) -> dict[str, int]:
    """The fragments that a change gives its queries."""
    return {name: place.fragment for name, place in (change.places or {}).items()}


def test_places_of_before_are_kept_and_who_comes_later_goes_by_them(tmp_path: Path) -> None:
    """An earlier panewise put queries of one core into fragments by their names."""
    folder = Folder(str(tmp_path))
    folder.make("catalog")
    by_name = Program(4).apply(Change(0, 0, (*STREAMS, PAIRS, SPREAD), places_by_name=True))
    assert numbers(by_name) == {"pairs": 1, "spread": 2}
    write_change(folder, by_name)
    program = read_program(folder, 4, {})
    assert fragments(program) == {"pairs": 1, "spread": 2}
    later = program.apply(Change(1, 5, (THIRD,)))
    assert numbers(later) == {"third": 1}
    write_change(folder, later)
    assert fragments(read_program(folder, 4, {})) == {"pairs": 1, "spread": 2, "third": 1}


def test_places_that_were_not_written_down_are_those_of_then(tmp_path: Path) -> None:
    """The first changes had none."""
    folder = Folder(str(tmp_path))
    folder.make("catalog")
    folder.write_json("catalog/000000.json", {"version": 0, "from_batch": 0, "statements": [*STREAMS, PAIRS, SPREAD]})
    assert read_change(folder, 0).places_by_name
    assert fragments(read_program(folder, 4, {})) == {"pairs": 1, "spread": 2}


def test_a_fragment_has_one_way(tmp_path: Path) -> None:
    keyed = "CREATE QUERY keyed AS SELECT x.k FROM a [RANGE 9 SECONDS] AS x, b [RANGE 9 SECONDS] AS y WHERE x.k = y.k"
    change = Program(4).apply(Change(0, 0, (*STREAMS, PAIRS, keyed)))
    assert change.places is not None
    wrong = {**change.places, "keyed": change.places["pairs"]}
    with pytest.raises(pw.SnapshotError, match="'keyed'"):
        Program(4).apply(replace(change, places=wrong))

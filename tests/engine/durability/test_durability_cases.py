"""The cases, and random streams and queries, on an engine whose folder is closed and opened again after every step.

An engine that is not closed with a snapshot replays its whole log each time: so answers are compared that come of every
prefix of it. Every third time it is closed with a snapshot, so that logs are also continued from one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from panewise.errors import PanewiseError
from tests.case_files import Case
from tests.case_runner import run_case
from tests.embedded_host import EmbeddedHost
from tests.engine.random_scripts import Manner, Script, run, scripts
from tests.engine.test_properties import agree, continuous, counted, differences, internal, periodic, restored
from tests.test_cases import CASES

queries = st.lists(st.one_of(periodic, counted, continuous, differences, internal, restored), min_size=1, max_size=3)


class DurableHost(EmbeddedHost):
    """An engine on a folder; a snapshot and restore is the next engine on the same folder."""

    name = "durable"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turns = 0
        self.engine = pw.Engine(folder, sync="never")

    def snapshot_and_restore(self) -> None:
        self._turns += 1
        self.engine.close(snapshot=self._turns % 3 == 0)
        self.engine = pw.Engine(self._folder, sync="never")
        assert self.engine.stats()["durability"]["replay_differences"] == 0


@contextmanager
def durable() -> Iterator[DurableHost]:
    with tempfile.TemporaryDirectory() as folder:
        host = DurableHost(Path(folder))
        try:
            yield host
        finally:
            host.engine.close(snapshot=False)


# A third of them where time is short: each step of each case is a start of its own.
SOME = [pytest.param(case, marks=[pytest.mark.soak] if number % 3 else []) for number, case in enumerate(CASES)]


@pytest.mark.parametrize("case", SOME, ids=str)
def test_case(case: Case) -> None:
    if "embedded" in case.skips:
        pytest.skip(case.skips["embedded"])
    with durable() as host:
        run_case(case, host, "snapshots", (PanewiseError,))


@given(scripts(), queries, st.lists(st.sampled_from((1, 2, 3, 7, 100)), min_size=1, max_size=4).map(tuple))
def test_random_streams_and_queries(script: Script, texts: list[str], sizes: tuple[int, ...]) -> None:
    expected = run(EmbeddedHost(), script, texts, Manner(sizes))
    with durable() as host:
        found = run(host, script, texts, Manner(sizes, (True, False)))
    for query, wanted, got in zip(texts, expected, found, strict=True):
        agree(query, wanted, got)

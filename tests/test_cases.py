"""Every case on the engine, in every manner, and on the reference where it covers the case."""

from __future__ import annotations

from pathlib import Path

import pytest

from panewise.errors import PanewiseError
from tests.case_files import Case, read_cases
from tests.case_runner import MANNERS, run_case
from tests.embedded_host import EmbeddedHost
from tests.reference.host import BadRow, NoSuchName, ReferenceHost

CASES = [case for path in sorted((Path(__file__).parent / "cases").glob("*.case")) for case in read_cases(path)]


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_engine(case: Case, manner: str) -> None:
    if "embedded" in case.skips:
        pytest.skip(case.skips["embedded"])
    run_case(case, EmbeddedHost(), manner, (PanewiseError,))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reference(case: Case) -> None:
    if "reference" in case.skips:
        pytest.skip(case.skips["reference"])
    run_case(case, ReferenceHost(), "batches", (BadRow, NoSuchName))


def test_there_are_cases_enough() -> None:
    """The reference must not quietly cover less and less of them."""
    judged_twice = [case for case in CASES if "reference" not in case.skips]
    assert len(CASES) >= 150
    assert len(judged_twice) >= 120

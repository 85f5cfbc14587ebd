"""The runner of many cases at once, proved on one engine that hosts them all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.case_files import Case, Step, Table
from tests.case_names import with_prefix
from tests.case_runner import Mismatch
from tests.engine_job import EngineJob
from tests.lockstep import run_together
from tests.spark_host import prefixes_of
from tests.test_cases import CASES

# All of them take a minute; every run has those of Spark besides.
NOW_OR_SOAK = [pytest.param(case, marks=[pytest.mark.soak] if number % 4 else []) for number, case in enumerate(CASES)]


@pytest.fixture(scope="module")
def together(soak: bool) -> tuple[dict[str, Exception | None], EngineJob]:
    job = EngineJob()
    cases = [case for case in (CASES if soak else CASES[::4]) if "spark" not in case.skips]
    return run_together(cases, job, prefixes_of(cases)), job


@pytest.mark.parametrize("case", NOW_OR_SOAK, ids=str)
def test_a_case_among_all_others(case: Case, together: tuple[dict[str, Exception | None], EngineJob]) -> None:
    if "spark" in case.skips:
        pytest.skip(case.skips["spark"])
    error = together[0][str(case)]
    if error is not None:
        raise error


def test_rounds_are_few(together: tuple[dict[str, Exception | None], EngineJob]) -> None:
    """A round of rows costs a micro-batch, a change a restart: both must not grow with the number of cases."""
    assert together[1].rounds <= 20
    assert together[1].changes <= 20


def test_a_wrong_case_fails_alone() -> None:
    sound = next(case for case in CASES if any(step.action == "results" for step in case.steps))
    steps = [_without_rows(step) if step.action == "results" else step for step in sound.steps]
    wrong = replace(sound, name="wrong", steps=tuple(steps))
    outcomes = run_together([wrong, sound], EngineJob(), ["c0_", "c1_"])
    assert isinstance(outcomes[str(wrong)], Mismatch)
    assert outcomes[str(sound)] is None


def _without_rows(step: Step) -> Step:
    return replace(step, table=Table((), ()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE STREAM IF NOT EXISTS t (t TIMESTAMP)", "CREATE STREAM IF NOT EXISTS c_t (t TIMESTAMP)"),
        ('DROP QUERY IF EXISTS "q"', 'DROP QUERY IF EXISTS "c_q"'),
        ("SELECT q FROM q [NOW], u [NOW] WHERE u.k = q.k", "SELECT q FROM c_q [NOW], c_u [NOW] WHERE c_u.k = c_q.k"),
        ("SELECT s FROM (SELECT 't' AS s FROM t [NOW]) [NOW]", "SELECT s FROM (SELECT 't' AS s FROM c_t [NOW]) [NOW]"),
        ("SELECT EXTRACT(DAY FROM t) AS d FROM t [NOW]", "SELECT EXTRACT(DAY FROM t) AS d FROM c_t [NOW]"),
        ("ALTER STREAM t SET (late = 'keep')", "ALTER STREAM c_t SET (late = 'keep')"),
        ("CREATE SINK s FROM q WITH (connector = 'q')", "CREATE SINK c_s FROM c_q WITH (connector = 'q')"),
        ("SHOW QUERIES; EXPLAIN QUERY q; EXPLAIN PLAN", "SHOW QUERIES; EXPLAIN QUERY c_q; EXPLAIN PLAN"),
    ],
)
def test_names_are_known_by_their_place(text: str, expected: str) -> None:
    assert with_prefix(text, "c_") == expected

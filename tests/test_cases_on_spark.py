"""The cases on Spark, with the answers that the engine gives: all share one pipeline, in lockstep.

Long runs have every case; every run has those that change, restart, fail or ask the pipeline, and a third of the rest.
Cases that only show how statements are refused need no running job: each has a pipeline of its own that never starts.
A case that is chosen alone (`-k`) runs alone. What Spark cannot is marked in the case, by `skip spark: reason`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.case_files import Case
from tests.case_runner import run_case
from tests.lockstep import CaseView, Refused, run_together
from tests.spark_host import SparkJob, never_runs, prefixes_of
from tests.test_cases import CASES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ONLY_FLOWS = {"execute", "push", "advance", "flush", "results"}


def only_flows(case: Case) -> bool:
    """Whether a case defines, takes rows and gives results, and does nothing else on the way."""
    actions = [step.action for step in case.steps]
    flowing = actions[actions.index("push") :] if "push" in actions else []
    return ONLY_FLOWS.issuperset(actions) and "execute" not in flowing


SHARED = [case for case in CASES if not never_runs(case)]
NOW_OR_SOAK = [
    pytest.param(case, marks=[pytest.mark.soak] if number % 3 and only_flows(case) else [])
    for number, case in enumerate(SHARED)
]
ALONE = [case for case in CASES if never_runs(case)]
SKIPS_MAX = 5


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Exception | None]:
    """How each of the chosen cases ended."""
    chosen = {item.name for item in request.session.items}
    running = [case for case in SHARED if "spark" not in case.skips and f"test_shared_case[{case}]" in chosen]
    job = SparkJob(spark, tmp_path_factory.mktemp("cases"))
    try:
        return run_together(running, job, prefixes_of(running))
    finally:
        job.stop()


@pytest.mark.parametrize("case", NOW_OR_SOAK, ids=str)
def test_shared_case(case: Case, outcomes: dict[str, Exception | None]) -> None:
    if "spark" in case.skips:
        pytest.skip(case.skips["spark"])
    error = outcomes[str(case)]
    if error is not None:
        raise error


@pytest.mark.parametrize("case", ALONE, ids=str)
def test_refusals(case: Case, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    if "spark" in case.skips:
        pytest.skip(case.skips["spark"])
    job = SparkJob(spark, tmp_path_factory.mktemp("refusals"))
    run_case(case, CaseView(job, ""), errors=(Refused,))
    assert not job.started


def test_few_cases_are_skipped() -> None:
    assert len([case for case in CASES if "spark" in case.skips]) <= SKIPS_MAX

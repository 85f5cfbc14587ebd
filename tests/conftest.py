"""What all tests share: hypothesis profiles, the soak switch, a Spark session and the figures of long runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import httpx
import hypothesis
import pytest

from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Deterministic: the same examples in every run, so that a red build is never a matter of luck.
hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=18,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# Fresh seeds and many more examples; a failure prints how to reproduce it.
hypothesis.settings.register_profile(
    "soak",
    derandomize=False,
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)

# The Java processes of tests live for seconds and die before what the second compiler makes has paid for itself: with
# the first one alone and a collector of one thread they take about half of the processor. Long runs have both.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# How long two processes of Spark wait for each other's first word, on a machine that is busy otherwise.
PATIENT_SPARK = f"-Dspark.python.authenticate.socketTimeout={int(PATIENCE_S)}s"
# Half of what is left goes into loading classes, where `make classes` has not made this file.
SHARED_CLASSES = Path(sys.prefix) / "spark-classes.jsa"

# Where a test does not say how long it waits for an answer, httpx would give up after five seconds.
for _limit in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, _limit, PATIENCE_S)

SESSION_FIXTURES = {"spark", "stock"}
# Parts of the paths of tests that start Java or servers, or compile most of the loops.
LONG = (
    "spark",
    "test_technique",
    "tests/serve",
    "tests/papers",
    "tests/synopses",
    "test_cases",
    "test_lockstep",
    "test_readme",
)

_figures: list[tuple[str, str]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="long versions: soak tests and hypothesis's soak profile")


def pytest_configure(config: pytest.Config) -> None:
    soak = config.getoption("--soak")
    hypothesis.settings.load_profile("soak" if soak else "ci")
    java = [PATIENT_SPARK]
    if not soak:
        java.append(SHORT_LIVED_JAVA)
        java += [f"-XX:SharedArchiveFile={SHARED_CLASSES} -Xlog:cds*=off"] if SHARED_CLASSES.exists() else []
    os.environ.setdefault("JDK_JAVA_OPTIONS", " ".join(java))
    # Tests start many processes, each of which would otherwise translate all of the package's modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is not None:
        from tests.compiling import compile_in_turns

        compile_in_turns(run)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--soak"):
        soak = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=soak)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
    # One process has the Spark session and all tests in it; every other file goes to whoever is free.
    for item in items:
        in_session = SESSION_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        item.add_marker(pytest.mark.xdist_group("spark" if in_session else item.nodeid.partition("::")[0]))
    # What takes long comes first, so that all processes end together.
    items.sort(key=_late)


def _late(item: pytest.Item) -> int:
    if SESSION_FIXTURES.intersection(getattr(item, "fixturenames", ())):
        return 0
    return next((at for at, part in enumerate(LONG, 1) if part in item.nodeid), len(LONG) + 1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _figures:
        terminalreporter.section("figures")
        width = max(len(name) for name, _ in _figures)
        for name, value in _figures:
            terminalreporter.line(f"{name:<{width}}  {value}")


@pytest.fixture(scope="session")
def soak(pytestconfig: pytest.Config) -> bool:
    """Whether this is the long run; loads are sized by it."""
    return bool(pytestconfig.getoption("--soak"))


@pytest.fixture(scope="session", autouse=True)
def _counted_loops_stay_python(soak: bool) -> None:
    """Operations are counted in the loops' own source, which is only compiled in long runs: it takes a minute."""
    from panewise.synopses import counting

    compiled = counting.specialised

    def chosen(loop: Any, name: str | None, **replaced: Any) -> Any:
        if soak or name is None or not name.endswith("counted"):
            return compiled(loop, name, **replaced)
        source = loop.py_func
        return FunctionType(source.__code__, {**source.__globals__, **replaced}, source.__name__, source.__defaults__)

    counting.specialised = chosen


@pytest.fixture(scope="session")
def figure() -> Callable[[str, object], None]:
    """`figure(name, value)` prints a measured value after the run; it never decides whether a test passes."""

    def record(name: str, value: object) -> None:
        _figures.append((name, str(value)))

    return record


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small local session for all Spark tests."""
    # Spark's Python workers must run this interpreter, whatever `python3` on the PATH is.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("panewise tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


# The only state store that transformWithState accepts.
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

"""What the backend over an engine owes its callers while others create, drop and push."""

from __future__ import annotations

import threading

import pytest

from panewise.errors import CatalogError, ConnectorError, DurabilityError
from panewise.serve.http.backends.engine_backend import EngineBackend
from panewise.serve.http.service.settings import Settings
from tests.serve.http.serving import BUSY
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def backend():
    made = EngineBackend(Settings())
    made.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)")
    yield made
    made.close()


def push(backend, begin, rows):
    found = [{"ts": second * 1_000_000, "k": "a", "v": 1} for second in range(begin, begin + rows)]
    backend.push("t", found, producer=None, sequence=None, timeout=None)


def test_readers_get_all_results_of_a_query_that_is_dropped(backend):
    backend.execute(f"CREATE QUERY busy AS {BUSY}")
    series = backend.results.series("busy")
    with backend._moving:  # as if the loop had no time
        push(backend, 0, 50)
        dropping = threading.Thread(target=backend.execute, args=("DROP QUERY busy",))
        dropping.start()
    dropping.join(PATIENCE_S)
    assert series.bounds() == (0, 49) and series.ended


def test_a_new_query_has_no_rows_of_one_that_could_not_be_forgotten(backend, monkeypatch):
    backend.execute(f"CREATE QUERY busy AS {BUSY}")
    push(backend, 0, 10)
    backend.settle()
    before = backend.results.series("busy")

    def full(_):
        raise DurabilityError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(backend.results, "forget", full)
        with pytest.raises(DurabilityError):
            backend.execute("DROP QUERY busy")
    backend.execute(f"CREATE QUERY busy AS {BUSY}")
    assert backend.results.series("busy").id != before.id
    assert backend.results.bounds("busy") == (0, 0)


def test_lookups_of_a_query_that_comes_and_goes_find_it_or_do_not(backend):
    over, wrong, looks = threading.Event(), [], [0, 0]

    def look(reader):
        while not over.is_set():
            looks[reader] += 1
            try:
                backend.lookup("busy", None, None)
                backend.catalog()
            except CatalogError:
                continue
            except Exception as problem:  # noqa: BLE001 - whatever it is would have been a 500
                wrong.append(problem)

    readers = [threading.Thread(target=look, args=(reader,)) for reader in range(2)]
    for reader in readers:
        reader.start()
    changes = 0
    while changes < 50 or min(looks) < 50:
        backend.execute(f"CREATE QUERY busy AS {BUSY}")
        backend.execute("DROP QUERY busy")
        changes += 1
    over.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_spellings_of_a_name_share_an_answer(backend):
    backend.execute(f"CREATE QUERY busy AS {BUSY}")
    for name in ("busy", "Busy", "bUsy", "BUSY"):
        backend.lookup(name, None, None)
    assert set(backend.engine._answers._used) == {"busy"}


def test_results_go_on_after_a_mistake_of_ours(backend, monkeypatch):
    backend.execute(f"CREATE QUERY busy AS {BUSY}")
    failed = threading.Event()

    def mistake(_):
        failed.set()
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(backend.engine, "hand_over_all", mistake)
        push(backend, 0, 10)
        assert failed.wait(PATIENCE_S)
        until(lambda: backend.ready() is not None)
        assert "internal error" in backend.ready().summary
    assert backend.results.series("busy").wait(8, PATIENCE_S)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE SINK s FROM busy WITH (connector = 'json', path = '{files}/out')",
        "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (connector = 'csv', path = '{files}/missing.csv')",
        "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (connector = 'csv', path = '/elsewhere/rows.csv')",
        "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (connector = 'generator')",
    ],
)
def test_what_would_be_run_from_the_next_start_on_only_is_refused(tmp_path, text):
    backend = EngineBackend(Settings(path=tmp_path))
    try:
        backend.execute(f"CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT); CREATE QUERY busy AS {BUSY}")
        with pytest.raises(ConnectorError, match="the file that it is started with"):
            backend.execute(text.format(files=tmp_path / "files"))
        assert backend.engine.catalog.find("s") is None
    finally:
        backend.close()

"""The log of results: a plain list says what it must hold, over repeats, restarts, drops and limits."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from panewise.errors import CatalogError, DurabilityError, DurabilityWarning, NotHeldError
from panewise.serve.http.results.result_log import Ended, Gone, ResultLog
from tests.faulty_files import FaultyFiles
from tests.waiting import PATIENCE_S

SCHEMA = pa.schema([("window_end", pa.timestamp("us", tz="UTC")), ("value", pa.int64())])
LARGE = {"keep_rows": 1_000_000, "keep_bytes": 1 << 30}


def rows(first: int, count: int, history: int = 0) -> pa.Table:
    """Rows with numbers from `first` on: three to a window, and told apart by number and history."""
    numbers = range(first, first + count)
    ends = pa.array([1_000_000 * (number // 3) for number in numbers], SCHEMA.field(0).type)
    return pa.table([ends, pa.array([1_000_000 * history + number for number in numbers], pa.int64())], SCHEMA)


def held(log: ResultLog, query: str) -> list[int]:
    first, end = log.bounds(query)
    return log.read(query, first, end - first)[1]["value"].to_pylist() if end > first else []  # type: ignore[no-any-return]


# -- one obvious thing at a time ---------------------------------------------------------------------------------


def test_numbers_that_are_known_are_skipped_and_the_rest_is_taken() -> None:
    log = ResultLog(None, **LARGE)
    log.append("q", rows(0, 5), 0)
    for first, count in ((0, 5), (2, 2), (3, 4), (0, 7)):
        log.append("q", rows(first, count), first)
    assert log.bounds("q") == (0, 7)
    assert held(log, "Q") == list(range(7))


def test_several_queries_at_once() -> None:
    log = ResultLog(None, **LARGE)
    log.append_all([("q", rows(0, 5), 0), ("r", rows(0, 2), 0)])
    log.append_all([("q", rows(3, 4), 3), ("r", rows(0, 2), 0), ("s", rows(0, 0), 0)])
    assert [log.bounds(query) for query in "qrs"] == [(0, 7), (0, 2), (0, 0)]
    assert held(log, "q") == list(range(7))


def test_rows_before_a_hole_are_given_up() -> None:
    log = ResultLog(None, **LARGE)
    log.append("q", rows(0, 5), 0)
    log.append("q", rows(8, 2), 8)
    assert log.bounds("q") == (8, 10)
    with pytest.raises(Gone) as gone:
        log.read("q", 3, 1)
    assert gone.value.first_held == 8


def test_other_rows_under_known_numbers_are_another_series() -> None:
    log = ResultLog(None, **LARGE)
    log.append("q", rows(0, 5), 0)
    before = log.series("q")
    log.append("q", rows(0, 2, history=1), 0)
    after = log.series("q")
    assert after.id != before.id and held(log, "q") == [1_000_000, 1_000_001]
    assert before.ended == "the query was created anew"


def test_not_a_number_is_the_same_when_it_comes_again() -> None:
    log = ResultLog(None, **LARGE)
    table = pa.table({"mean": [float("nan"), None, -0.0]})
    log.append("q", table, 0)
    id = log.series("q").id
    log.append("q", table, 0)
    assert log.series("q").id == id and log.bounds("q") == (0, 3)


def test_metadata_and_dictionaries_make_no_other_series() -> None:
    log = ResultLog(None, **LARGE)
    table = pa.table({"symbol": ["A", "B"]})
    log.append("q", table, 0)
    id = log.series("q").id
    log.append("q", table.replace_schema_metadata({"panewise.watermark_us": "7"}), 2)
    log.append("q", pa.table({"symbol": table["symbol"].dictionary_encode()}), 4)
    assert log.series("q").id == id and log.bounds("q") == (0, 6)


def test_other_columns_are_another_series() -> None:
    log = ResultLog(None, **LARGE)
    log.append("q", rows(0, 5), 0)
    before = log.series("q")
    after = log.begin("q", pa.schema([("n", pa.int64())]))
    assert before.ended is not None and after.id != before.id and log.bounds("q") == (0, 0)
    assert log.begin("q", pa.schema([("n", pa.int64())])) is after


def test_a_reader_of_a_dropped_query_gets_the_rest_and_then_the_end() -> None:
    log = ResultLog(None, **LARGE)
    log.append("q", rows(0, 5), 0)
    series = log.series("q")
    log.forget("q")
    assert series.read(2, 100)[1].num_rows == 3
    with pytest.raises(Ended, match="dropped"):
        series.read(5, 1)
    with pytest.raises(CatalogError, match="no query 'q'"):
        log.bounds("q")
    log.forget("q")  # and again: nothing


def test_a_row_that_was_not_produced_is_refused() -> None:
    log = ResultLog(None, **LARGE)
    log.append("q", rows(0, 5), 0)
    assert log.read("q", 5, 10)[1].num_rows == 0
    with pytest.raises(NotHeldError, match="no row 6"):
        log.read("q", 6, 10)


def test_after_a_window() -> None:
    log = ResultLog(None, keep_rows=30, keep_bytes=1 << 30)
    log.append("q", rows(0, 30), 0)
    for instant in (-1, 0, 1, 999_999, 1_000_000, 8_000_000, 9_000_000, 10**15):
        later = [number for number in range(30) if 1_000_000 * (number // 3) > instant]
        assert log.after_window("q", instant) == (later[0] if later else 30)
    log.append("q", rows(30, 30), 30)
    first = log.bounds("q")[0]
    assert first > 0
    given_up = 1_000_000 * ((first - 1) // 3)
    assert log.after_window("q", given_up) >= first
    with pytest.raises(Gone):
        log.after_window("q", given_up - 1)


def test_a_window_in_a_hole_is_not_held_before_and_after_a_restart(tmp_path: Path) -> None:
    log = ResultLog(tmp_path, **LARGE)
    log.append("q", rows(0, 6), 0)
    log.append("q", rows(30, 6), 30)
    for _ in range(2):
        assert log.after_window("q", 10_000_000) == 33
        with pytest.raises(Gone):
            log.after_window("q", 5_000_000)
        log.close()
        log = reopened(tmp_path)


def test_results_without_an_instant_have_no_windows() -> None:
    log = ResultLog(None, **LARGE)
    log.append("q", pa.table({"n": [1]}), 0)
    with pytest.raises(NotHeldError, match="window_end"):
        log.after_window("q", 0)


def test_many_small_appends_are_few_chunks() -> None:
    log = ResultLog(None, **LARGE)
    for number in range(5_000):
        log.append("q", rows(number, 1), number)
    chunks = log.series("q").chunks()
    assert len(chunks) < 30 and sum(chunk.batch.num_rows for chunk in chunks) == 5_000
    assert held(log, "q") == list(range(5_000))


def test_rows_do_not_hold_the_buffers_that_they_were_cut_from() -> None:
    log = ResultLog(None, **LARGE)
    large = rows(0, 1_000_000)
    before = pa.total_allocated_bytes()
    log.append("q", large.slice(10, 5), 0)
    del large
    assert pa.total_allocated_bytes() < before - 10_000_000


def test_what_is_wanted_is_held_beyond_the_limits(tmp_path: Path) -> None:
    table = pa.table({"v": list(range(1_000))})
    log = ResultLog(tmp_path, keep_rows=10, keep_bytes=1 << 30, limited=False)
    log.append("q", table, 0)
    assert log.bounds("q") == (0, 1_000)
    log.close()
    log = ResultLog(tmp_path, keep_rows=10, keep_bytes=1 << 30, limited=False)
    assert log.bounds("q") == (0, 1_000)
    log.series("q").wanted_from = lambda: 300
    log.limit()
    log.append("q", table.slice(0, 5), 1_000)
    assert log.bounds("q") == (300, 1_005)
    log.series("q").wanted_from = lambda: None
    log.append("q", table.slice(0, 5), 1_005)
    assert log.bounds("q")[0] > 900
    log.close()


def test_bytes_are_limited_too() -> None:
    log = ResultLog(None, keep_rows=10**9, keep_bytes=100_000)
    for first in range(0, 100_000, 1_000):
        log.append("q", rows(first, 1_000), first)
    assert 50_000 < log.series("q").bytes <= 100_000


# -- waiting -----------------------------------------------------------------------------------------------------


def test_a_thread_waits_for_a_row() -> None:
    log = ResultLog(None, **LARGE)
    log.begin("q", SCHEMA)
    assert not log.wait("q", 0, 0.0)
    timer = threading.Timer(0.05, log.append, ("q", rows(0, 1), 0))
    timer.start()
    assert log.wait("q", 0, PATIENCE_S)
    assert not log.wait("q", 1, 0.0)
    timer.join()


def test_a_loop_is_woken_once_for_all_that_came() -> None:
    async def main() -> tuple[list[int], list[int]]:
        log = ResultLog(None, **LARGE)
        series = log.begin("q", SCHEMA)
        woken: list[list[int]] = [[], []]
        stops = [series.listen(lambda seen=seen: seen.append(series.next)) for seen in woken]

        def produce() -> None:
            for number in range(1_000):
                log.append("q", rows(number, 1), number)

        # The loop does not run while this thread does, so that all wake-ups but the first are spared.
        thread = threading.Thread(target=produce)
        thread.start()
        thread.join()
        await asyncio.sleep(0.01)
        for stop in stops:
            stop()
        log.append("q", rows(1_000, 1), 1_000)
        await asyncio.sleep(0.01)
        return woken[0], woken[1]

    assert asyncio.run(main()) == ([1_000], [1_000])


# -- the disk ----------------------------------------------------------------------------------------------------


def test_a_torn_end_is_cut_off_and_said(tmp_path: Path) -> None:
    log = ResultLog(tmp_path, **LARGE)
    log.append("q", rows(0, 5), 0)
    log.append("q", rows(5, 5), 5)
    log.close()
    (file,) = tmp_path.glob("results-*")
    os.truncate(file, file.stat().st_size - 10)
    with pytest.warns(DurabilityWarning, match="torn"):
        log = ResultLog(tmp_path, **LARGE)
    assert log.bytes_cut > 0 and held(log, "q") == list(range(5))
    log.append("q", rows(3, 7), 3)
    assert held(log, "q") == list(range(10))
    log.close()
    assert held(reopened(tmp_path), "q") == list(range(10))


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    log = ResultLog(tmp_path, **LARGE)
    for first in (0, 5, 10):
        log.append("q", rows(first, 5), first)
    log.close()
    (file,) = tmp_path.glob("results-*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(DurabilityError, match="damaged"):
        ResultLog(tmp_path, **LARGE)


def test_a_folder_has_one_log(tmp_path: Path) -> None:
    log = ResultLog(tmp_path, **LARGE)
    with pytest.raises(DurabilityError, match="in use"):
        ResultLog(tmp_path, **LARGE)
    log.close()
    with pytest.raises(DurabilityError, match="closed"):
        log.append("q", rows(0, 1), 0)
    reopened(tmp_path).close()


def test_what_was_dropped_is_forgotten_at_the_next_start(tmp_path: Path) -> None:
    """DROP QUERY, and the process dies before `forget`: `retain` makes up for it, and the name begins anew."""
    log = ResultLog(tmp_path, **LARGE)
    log.append("kept", rows(0, 5), 0)
    log.append("dropped", rows(0, 5), 0)
    old = log.series("dropped").id
    log.close()
    log = reopened(tmp_path)
    log.retain(["KEPT"])
    assert log.names() == ["kept"]
    log.append("dropped", rows(0, 3, history=1), 0)
    assert log.series("dropped").id != old
    log.close()
    assert held(reopened(tmp_path), "dropped") == [1_000_000, 1_000_001, 1_000_002]


def test_the_disk_holds_about_what_is_held(tmp_path: Path) -> None:
    """One query fills files, another has a row in each of them, which does not keep them."""
    # These files do not wait for the disk.
    log = ResultLog(tmp_path, keep_rows=400, keep_bytes=1 << 30, segment_bytes=20_000, files=FaultyFiles())
    for step in range(600):
        log.append("busy", rows(20 * step, 20), 20 * step)
        log.append("calm", rows(step, 1), step)
    on_disk = sum(file.stat().st_size for file in tmp_path.glob("results-*"))
    assert on_disk == log.bytes_on_disk < 150_000
    calm, busy = held(log, "calm"), held(log, "busy")
    assert len(calm) >= 400 and len(busy) >= 400
    log.close()
    log = reopened(tmp_path, keep_rows=400, keep_bytes=1 << 30, segment_bytes=20_000)
    assert held(log, "calm")[-400:] == calm[-400:] and held(log, "busy")[-400:] == busy[-400:]


# -- the memory of all queries ---------------------------------------------------------------------------------------


def wide(first: int, count: int) -> pa.Table:
    """Rows of about a kilobyte."""
    table = rows(first, count)
    return table.append_column("text", pa.array([f"{number:01000d}" for number in range(first, first + count)]))


def append_in_turns(log: ResultLog, queries: int, count: int, step: int = 50) -> None:
    for first in range(0, count, step):
        log.append_all([(f"q{number}", wide(first, step), first) for number in range(queries)])


def test_old_rows_of_all_queries_are_read_from_the_disk(tmp_path: Path) -> None:
    before = pa.total_allocated_bytes()
    log = ResultLog(tmp_path, **LARGE, keep_total=1 << 20, files=FaultyFiles())
    append_in_turns(log, queries=8, count=1_000)
    assert log.bytes_in_memory <= 1 << 20
    assert pa.total_allocated_bytes() - before < 3 << 20, "8 MB are held"
    assert log.stats()["bytes"] > 8_000_000
    assert log.stats()["rows_given_up"] == 0
    for number in range(8):
        assert log.bounds(f"q{number}") == (0, 1_000)
        assert log.read(f"q{number}", 0, 1_000)[1].equals(wide(0, 1_000))
        assert log.after_window(f"q{number}", 1_000_000 * 100) == 303
    assert log.bytes_on_disk < 3 * log.stats()["bytes"]
    log.close()

    log = ResultLog(tmp_path, **LARGE, keep_total=1 << 20, files=FaultyFiles())
    assert pa.total_allocated_bytes() - before < 3 << 20, "nor is it all in memory after a restart"
    assert log.bytes_in_memory <= 1 << 20
    for number in range(8):
        assert log.read(f"q{number}", 0, 1_000)[1].equals(wide(0, 1_000))
    log.close()


def test_a_reader_keeps_what_it_has_when_the_file_goes(tmp_path: Path) -> None:
    options: dict[str, Any] = {"keep_rows": 200, "keep_bytes": 1 << 30, "keep_total": 1, "segment_bytes": 50_000}
    log = ResultLog(tmp_path, **options, files=FaultyFiles())
    log.append("q0", wide(0, 100), 0)
    read = log.read("q0", 0, 100)[1]
    files = set(tmp_path.glob("results-*"))
    for first in range(100, 1_000, 50):
        log.append("q0", wide(first, 50), first)
    assert not files & set(tmp_path.glob("results-*"))
    assert read.equals(wide(0, 100))
    first = log.bounds("q0")[0]
    assert first > 100
    assert log.read("q0", first, 1_000)[1].equals(wide(first, 1_000 - first))
    log.close()


def test_without_a_disk_the_oldest_rows_of_who_has_most_are_given_up_and_counted() -> None:
    log = ResultLog(None, keep_rows=1_000_000, keep_bytes=1 << 30, keep_total=1 << 20)
    log.append("calm", wide(0, 20), 0)
    for first in range(0, 20_000, 2_000):
        log.append("busy", wide(first, 2_000), first)
    assert log.bounds("calm") == (0, 20), "a query that has little loses nothing because of another"
    first, end = log.bounds("busy")
    assert 0 < first < end == 20_000
    assert log.stats()["rows_given_up"] == first
    assert log.read("busy", first, 10)[1].equals(wide(first, 10))
    with pytest.raises(Gone):
        log.read("busy", first - 1, 10)
    assert log.bytes_in_memory < 2 << 20, "the newest chunk of a query stays"
    log.close()


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("batch", [wide(0, 600), wide(0, 6_000), rows(0, 200_000)])
def test_what_large_batches_take_is_limited_as_well(on_disk: bool, batch: pa.Table, tmp_path: Path) -> None:
    """What is left of a batch in memory does not hold the others of its rows there, and few wide rows are a chunk."""
    before = pa.total_allocated_bytes()
    log = ResultLog(tmp_path if on_disk else None, **LARGE, keep_total=1 << 20, files=FaultyFiles())
    for time in range(4):
        for number in range(3):
            log.append(f"q{number}", batch, time * batch.num_rows)
        assert pa.total_allocated_bytes() - before < 5 << 20, "a MiB, and of each query the newest chunk"
    log.close()


def test_a_disk_that_is_full_takes_no_row_from_the_memory(tmp_path: Path) -> None:
    log = ResultLog(tmp_path, **LARGE, keep_total=1 << 30, files=FaultyFiles())
    append_in_turns(log, queries=2, count=200)
    log._memory.bytes_most = 1
    segments = log._segments
    assert segments is not None
    with pytest.MonkeyPatch.context() as patch:

        def refused(*_: Any) -> Any:
            raise DurabilityError("the disk is full")

        patch.setattr(segments, "append_again", refused)
        log.append("q0", wide(200, 1), 200)
    assert log.bytes_in_memory > 400_000
    assert log.read("q0", 0, 1_000)[1].equals(wide(0, 201))
    log.append("q0", wide(201, 1), 201)
    assert log.bytes_in_memory <= 1
    assert log.read("q0", 0, 1_000)[1].equals(wide(0, 202))
    log.close()


def test_restarts_do_not_pile_up_files(tmp_path: Path) -> None:
    for number in range(30):
        log = reopened(tmp_path)
        log.append("q", rows(number, 1), number)
        log.close()
    assert len(list(tmp_path.glob("results-*"))) <= 2
    assert held(reopened(tmp_path), "q") == list(range(30))


def reopened(path: Path, **options: Any) -> ResultLog:
    return ResultLog(path, **(options or LARGE))


# -- against a list ----------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(0, 40), st.integers(0, 30)),
        st.tuples(st.just("drop"), st.integers(0, 2), st.just(0), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS, st.integers(1, 60), st.sampled_from([None, 1 << 30, 1, 600]))
def test_the_log_holds_the_end_of_a_list(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int, int]], keep: int, in_memory: int | None
) -> None:
    """`in_memory`: bytes of a log on disk that stay in memory; None: there is no disk."""
    path = None if in_memory is None else tmp_path_factory.mktemp("log")
    options: dict[str, Any] = {"keep_rows": keep, "keep_bytes": 1 << 30, "segment_bytes": 4_000, "files": FaultyFiles()}
    options["keep_total"] = in_memory or 1 << 30
    log = ResultLog(path, **options)
    lists: dict[str, list[int]] = {}
    histories = dict.fromkeys("abc", 0)
    for kind, which, new, again in steps:
        query = "abc"[which]
        if kind == "append":
            known = lists.setdefault(query, [])
            first = max(0, len(known) - again)
            table = rows(first, len(known) - first + new, histories[query])
            log.append(query, table, first)
            known[first:] = table["value"].to_pylist()
        elif kind == "drop":
            log.forget(query)
            lists.pop(query, None)
            histories[query] += 1
        elif path is not None:
            log.close()
            log = ResultLog(path, **options)
        check(log, lists, keep)
        assert log.bytes_in_memory <= options["keep_total"]
    log.close()


def check(log: ResultLog, lists: dict[str, list[int]], keep: int) -> None:
    assert sorted(log.names()) == sorted(lists)
    for query, known in lists.items():
        first, end = log.bounds(query)
        assert end == len(known)
        assert first <= max(0, end - keep)  # at least so many are held
        assert end - first <= 2 * keep + 40  # and not many more
        assert held(log, query) == known[first:]
        middle = (first + end) // 2
        assert log.read(query, middle, 3)[1]["value"].to_pylist() == known[middle : middle + 3]

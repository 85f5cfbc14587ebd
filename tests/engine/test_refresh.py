"""WITH (refresh = 'at_most'): a slide as an upper bound, shared with the family, fixed for life."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from panewise.errors import PanewiseError
from panewise.temporal import TimeWindow
from tests.now_or_soak import examples

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT)"


def slide_of(engine: pw.Engine, name: str) -> float:
    window = engine.hosting.queries[name].block.window
    assert isinstance(window, TimeWindow) and window.slide_us is not None
    return window.slide_us / SECOND


def query(name: str, slide: int, options: str = "", where: str = "", align: str = "", aggregate: str = "SUM(v)") -> str:
    written = f" WITH ({options})" if options else ""
    window = f"[RANGE 20 SECONDS SLIDE {slide} SECONDS{align}]"
    return f"CREATE QUERY {name}{written} AS SELECT k, {aggregate} AS a FROM s {window} {where} GROUP BY k"


AT_MOST = "refresh = 'at_most'"


@pytest.fixture
def engine() -> pw.Engine:
    engine = pw.Engine()
    engine.execute(STREAM)
    return engine


class TestTheSlideItGets:
    def test_alone_it_keeps_its_own(self, engine: pw.Engine) -> None:
        engine.execute(query("q", 7, AT_MOST))
        assert slide_of(engine, "q") == 7

    @pytest.mark.parametrize(("others", "expected"), [([2], 6), ([3], 6), ([2, 3, 5], 6), ([4], 4), ([7], 7), ([9], 7)])
    def test_the_longest_within_its_own_at_which_another_reports(
        self, engine: pw.Engine, others: list[int], expected: int
    ) -> None:
        for slide in others:
            engine.execute(query(f"q{slide}", slide))
        engine.execute(query("q", 7, AT_MOST, aggregate="MAX(v)"))
        assert slide_of(engine, "q") == expected

    def test_exact_is_the_default_and_may_be_said(self, engine: pw.Engine) -> None:
        engine.execute(query("two", 2) + ";" + query("seven", 7) + ";" + query("eleven", 11, "refresh = 'exact'"))
        assert (slide_of(engine, "seven"), slide_of(engine, "eleven")) == (7, 11)

    def test_others_of_at_most_count_too(self, engine: pw.Engine) -> None:
        engine.execute(query("a", 7, AT_MOST) + ";" + query("b", 11, AT_MOST))
        assert (slide_of(engine, "a"), slide_of(engine, "b")) == (7, 7)

    def test_another_family_does_not_count(self, engine: pw.Engine) -> None:
        engine.execute(query("two", 2, where="WHERE v > 1"))
        engine.execute("CREATE QUERY whole AS SELECT SUM(v) AS a FROM s [RANGE 20 SECONDS SLIDE 3 SECONDS]")
        engine.execute(query("q", 7, AT_MOST))
        assert slide_of(engine, "q") == 7

    def test_nor_do_instants_beside_its_own(self, engine: pw.Engine) -> None:
        engine.execute(query("two", 2, align=" ALIGN '1970-01-01 00:00:01'"))
        engine.execute(query("q", 7, AT_MOST))
        assert slide_of(engine, "q") == 7

    def test_it_stays_when_the_other_goes(self, engine: pw.Engine) -> None:
        engine.execute(query("two", 2) + ";" + query("q", 7, AT_MOST))
        engine.execute("DROP QUERY two")
        assert slide_of(engine, "q") == 6

    def test_explain_shows_it(self, engine: pw.Engine) -> None:
        engine.execute(query("two", 2) + ";" + query("q", 7, AT_MOST))
        assert "SLIDE 6 SECONDS" in str(engine.explain("q"))


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE QUERY q WITH ({AT_MOST}) AS SELECT SUM(v) AS a FROM s [RANGE 20 SECONDS]",
        f"CREATE QUERY q WITH ({AT_MOST}) AS SELECT SUM(v) AS a FROM s [ROWS 20 SLIDE 2]",
        f"CREATE QUERY q WITH ({AT_MOST}) AS SELECT v FROM s [RANGE 20 SECONDS SLIDE 2 SECONDS]",
    ],
)
def test_without_a_slide_in_time_it_is_refused(engine: pw.Engine, text: str) -> None:
    with pytest.raises(PanewiseError, match="at_most"):
        engine.execute(text)
    assert engine.execute("SHOW QUERIES").num_rows == 0  # type: ignore[union-attr]


def test_other_words_are_refused(engine: pw.Engine) -> None:
    with pytest.raises(PanewiseError, match="'refresh' takes 'exact' or 'at_most'"):
        engine.execute(query("q", 7, "refresh = 'often'"))


def test_on_spark_it_is_refused() -> None:
    from types import SimpleNamespace

    session: Any = SimpleNamespace(version="4.3.0")
    pipeline = pw.SparkPipeline(session, partitions=2)
    pipeline.execute(STREAM)
    with pytest.raises(PanewiseError, match="embedded engine"):
        pipeline.execute(query("q", 7, AT_MOST))


def rows(seconds: range) -> list[dict[str, int]]:
    return [{"ts": second * SECOND, "k": second % 3, "v": second * second % 17} for second in seconds]


def test_a_snapshot_keeps_it(engine: pw.Engine) -> None:
    engine.execute(query("two", 2) + ";" + query("q", 7, AT_MOST))
    engine.push("s", rows(range(15)))
    engine.results("q")
    engine.execute("DROP QUERY two")
    again = pw.Engine.restore(engine.snapshot())
    assert slide_of(again, "q") == 6
    for host in (engine, again):
        host.push("s", rows(range(15, 60)))
    assert again.results("q").equals(engine.results("q"))
    once_more = pw.Engine.restore(again.snapshot())
    assert slide_of(once_more, "q") == 6
    once_more.execute("DROP QUERY q")
    once_more.execute(query("q", 7, AT_MOST))
    assert slide_of(once_more, "q") == 7  # a new one, and nobody else is there


def test_an_engine_with_a_path_keeps_it(tmp_path: Any) -> None:
    with pw.Engine(tmp_path) as first:
        first.execute(STREAM)
        first.execute(query("two", 2) + ";" + query("q", 7, AT_MOST) + "; DROP QUERY two")
        first.push("s", rows(range(30)))
        expected = first.lookup("q")
    with pw.Engine(tmp_path) as second:
        assert slide_of(second, "q") == 6
        assert second.lookup("q").equals(expected)


def _windows(times: range, slide: int, until: int) -> Iterator[tuple[int, int, int]]:
    """By definition: at every multiple of the slide, each group's sum over the last 20 seconds."""
    for end in range(slide, until + 1, slide):
        for k in range(3):
            inside = [second for second in times if end - 20 <= second < end and second % 3 == k]
            if inside:
                yield end, k, sum(second * second % 17 for second in inside)


@examples(7, soak=15)
@given(st.lists(st.integers(1, 12), max_size=3), st.integers(1, 15), st.integers(1, 70))
def test_every_report_is_that_of_its_window_and_none_is_too_far_from_the_next(
    others: list[int], slide: int, until: int
) -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    for number, other in enumerate(others):
        engine.execute(query(f"q{number}", other))
    engine.execute(query("q", slide, AT_MOST))
    engine.push("s", rows(range(until + 1)))
    table = engine.results("q")
    given_slide = int(slide_of(engine, "q"))
    assert given_slide <= slide < 2 * given_slide + 1
    assert any(given_slide % other == 0 for other in others if other <= slide) or given_slide == slide
    ends = [int(end.timestamp()) for end in table["window_end"].to_pylist()]
    found = sorted(zip(ends, table["k"].to_pylist(), table["a"].to_pylist(), strict=True))
    assert found == list(_windows(range(until + 1), given_slide, until))

"""The drawing of a weave: well-formed whatever the names, nothing overlaps, nothing leaves its box, never too much."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from panewise.optimize.sharing.report.sharing_report import FamilyReport, SharingReport, TreeReport
from panewise.serve.cli.cli import app
from panewise.serve.drawing.weave_graph import NOTE_SIZE, TITLE_SIZE, boxes_of, dot, svg, window_text
from panewise.serve.drawing.weave_layout import TEXT_SIZE, Box, PlacedBox, fitted, placed, printable, text_width
from panewise.temporal import SECOND, RowsWindow, TimeWindow
from tests.now_or_soak import examples

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"title": TITLE_SIZE, "note": NOTE_SIZE, "strong": TEXT_SIZE, "body": TEXT_SIZE}

# Names that a user may quote, with everything that XML or Graphviz could trip over.
names = st.one_of(
    st.text(min_size=1, max_size=60),
    st.sampled_from(
        ["q", "a & b", "<b>", 'say "x"', "back\\slash\\", "&lt;", "]]>", "\x00", "\u202etfel", "長い名前" * 20]
    ),
)
windows = st.one_of(
    st.builds(lambda r, s, o: str(TimeWindow(r * SECOND, s * SECOND, o)), *[st.integers(1, 5000)] * 3),
    st.builds(lambda n, m: str(RowsWindow(n, m)), st.integers(1, 500), st.integers(1, 500)),
)
costs = st.floats(0, 1e12)
rates = st.none() | st.floats(0, 1e9)


@st.composite
def trees(draw: st.DrawFn) -> TreeReport:
    members = draw(st.lists(st.tuples(names, windows), min_size=1, max_size=8)) * draw(st.sampled_from([1, 1, 40]))
    technique = draw(st.dictionaries(names, st.sampled_from(["b_int", "r_int", "slick_deque"]), max_size=3))
    held = draw(st.none() | st.integers(0, 10**7))
    return TreeReport(draw(names), technique, tuple(members), draw(rates), held, draw(costs))


@st.composite
def reports(draw: st.DrawFn) -> SharingReport:
    families = st.builds(
        FamilyReport,
        stream=st.sampled_from(["trades", "a <stream> & more"]) | names,
        grouping=st.just("") | names,
        selections=st.lists(st.just("") | names, max_size=3).map(tuple),
        states=st.lists(names, max_size=4).map(tuple),
        rows_per_second=rates,
        groups=st.none() | st.integers(1, 10**9),
        composite_edges_per_second=rates,
        trees=st.lists(trees(), min_size=1, max_size=5).map(
            lambda some: tuple(some) * draw(st.sampled_from([1, 1, 9]))
        ),
        cost=costs,
        cost_alone=costs,
        cost_full=costs,
        rules=st.lists(names, max_size=2).map(tuple),
        rows_per_second_assumed=rates,
    )
    return SharingReport(tuple(draw(st.lists(families, max_size=4))), draw(st.sampled_from(["weave", "none", "full"])))


def all_boxes(boxes: tuple[Box, ...]) -> Iterator[Box]:
    for box in boxes:
        yield box
        yield from all_boxes(box.children)


def number(element: ET.Element, name: str) -> float:
    return float(element.attrib[name])


def text_extent(text: ET.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a text, by the widest font."""
    size = SIZES[text.attrib["class"]]
    width = text_width(text.text or "", size, bold=text.attrib["class"] in ("title", "strong"))
    left, base = number(text, "x"), number(text, "y")
    return left, base - size, left + width, base + 0.3 * size


def box_extent(box: ET.Element) -> tuple[float, float, float, float]:
    left, top = number(box, "x"), number(box, "y")
    return left, top, left + number(box, "width"), top + number(box, "height")


def overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@examples(20, soak=40)
@given(reports())
def test_no_text_leaves_its_box_and_nothing_overlaps(report: SharingReport) -> None:
    picture = ET.fromstring(svg(report).encode())
    width, height = number(picture, "width"), number(picture, "height")
    boxes = picture.findall(f"{SVG}svg")
    assert len(boxes) == len(list(all_boxes(boxes_of(report)))) <= 200
    for box in boxes:
        texts = [text_extent(text) for text in box.findall(f"{SVG}text")]
        for left, top, right, bottom in texts:
            assert left >= 0
            assert top >= 0
            assert right <= number(box, "width") + 0.1
            assert bottom <= number(box, "height") + 0.1
        assert not any(overlap(one, other) for one, other in combinations(texts, 2))
    outer = [text_extent(text) for text in picture.findall(f"{SVG}text")] + [box_extent(box) for box in boxes]
    assert not any(overlap(one, other) for one, other in combinations(outer, 2))
    for left, top, right, bottom in outer:
        assert 0 <= left <= right <= width
        assert 0 <= top <= bottom <= height


@examples(20, soak=40)
@given(reports())
def test_lines_lead_from_box_to_box_and_are_as_thick_as_the_cost(report: SharingReport) -> None:
    boxes = placed(boxes_of(report), 0.0, 0.0, (0.0,) * 4)
    picture = ET.fromstring(svg(report).encode())
    paths = picture.findall(f"{SVG}path")
    children = [part for part in boxes if part.parent is not None]
    assert len(paths) == len(children)
    extents = [box_extent(box) for box in picture.findall(f"{SVG}svg")]
    for path, child in zip(paths, children, strict=True):
        start_x, start_y, bend, end_y, end_x = map(float, re.findall(r"-?[\d.]+", path.attrib["d"]))
        assert child.parent is not None
        parent, own = extents[child.parent], extents[boxes.index(child)]
        assert start_x == pytest.approx(parent[2], abs=0.2)
        assert parent[1] < start_y < parent[3]
        assert end_x == pytest.approx(own[0], abs=0.2)
        assert own[1] < end_y < own[3]
        assert start_x < bend < end_x
        # A vertical line runs between the columns, never through a box.
        assert not any(left < bend < right for left, _, right, _ in extents)
        assert number(path, "stroke-width") == pytest.approx(1.5 + 10 * (child.box.share or 0.0), abs=0.01)


@examples(20, soak=40)
@given(reports())
def test_graphviz_text_has_the_same_boxes_and_is_quoted(report: SharingReport) -> None:
    lines = dot(report).splitlines()
    assert (lines[0], lines[-1]) == ("digraph weave {", "}")
    boxes = list(all_boxes(boxes_of(report)))
    nodes = [line for line in lines if re.match(r"  n\d+ \[", line)]
    edges = [line for line in lines if " -> " in line and re.match(r"  n\d+ -> n\d+ \[penwidth=[\d.]+\];$", line)]
    assert len(nodes) == len(boxes)
    assert len(edges) == len(boxes) - len(boxes_of(report))
    for line in nodes:
        # Once quoted strings are taken out, in which a quote is escaped, nothing of a name is left.
        assert re.fullmatch(r"  n\d+ \[label=, fillcolor=, color=\];", re.sub(r'"(?:[^"\\]|\\.)*"', "", line))


def a_tree(number: int, window_texts: list[str], cost: float) -> TreeReport:
    members = tuple((f"q{number}_{i}", text) for i, text in enumerate(window_texts))
    return TreeReport(f"tree {number}", {"MAX(v)": "b_int", "COUNT(*)": "r_int"}, members, 1.0, 60, cost)


def a_report(*some: TreeReport) -> SharingReport:
    cost = sum(tree.cost_ns_per_second for tree in some) + 1e6
    family = FamilyReport(
        "trades", "symbol", ("size > 1",), ("MAX(v)", "COUNT(*)"), 1e4, 7, 1.0, some, cost, 4 * cost, cost
    )
    return SharingReport((family,), "weave")


def test_a_dozen_queries_are_drawn_one_by_one() -> None:
    report = a_report(a_tree(1, ["[RANGE 1 MINUTE SLIDE 1 SECOND]"] * 12, 3e6))
    texts = [box.lines for box in all_boxes(boxes_of(report))]
    assert texts[0] == ("trades", "rows: 10,000 per second", "12 queries")
    assert texts[1][0] == "by symbol, 7 groups"
    assert "4 times cheaper than each query alone" in [line.lower() for line in texts[1]]
    assert texts[2] == (
        "tree 1",
        "12 queries, kept by b_int, r_int",
        "edges: 1 per second, 60 slices held",
        "3 ms per second, 75 % of all",
    )
    assert texts[3:] == [(f"q1_{i}", "range 1 min slide 1 s") for i in range(12)]


def test_thousands_are_bundled_by_window() -> None:
    many = ["[RANGE 60 SECONDS SLIDE 1 SECOND]"] * 240 + [f"[RANGE {r} SECONDS SLIDE 5 SECONDS]" for r in range(1, 392)]
    tree = boxes_of(a_report(a_tree(1, many, 3e6)))[0].children[0].children[0]
    assert tree.lines[2:4] == ("ranges: 1 s to 391 s", "slides: 1 s to 5 s")
    assert tree.children[0].lines == ("range 60 s slide 1 s  x 240",)
    assert len(tree.children) == 12
    assert tree.children[-1].lines == ("and 381 more windows", "381 queries")


def test_of_many_trees_the_dearest_are_drawn() -> None:
    report = a_report(*(a_tree(n, ["[RANGE 1 MINUTE SLIDE 1 SECOND]"] * 50, n * 1e6) for n in range(1, 101)))
    drawn = boxes_of(report)[0].children[0].children
    assert [box.lines[0] for box in drawn] == [f"tree {n}" for n in range(89, 101)] + ["and 88 more trees"]
    assert drawn[-1].lines[1] == "4,400 queries"
    assert drawn[-2].share == pytest.approx(100e6 / report.cost)


def test_many_streams_and_families_stay_few_boxes() -> None:
    one = a_report(a_tree(1, ["[RANGE 1 MINUTE SLIDE 1 SECOND]"] * 50, 1e6)).families[0]
    families = [FamilyReport(**(vars(one) | {"stream": f"s{i % 40}"})) for i in range(1600)]
    drawn = boxes_of(SharingReport(tuple(families), "weave"))
    assert drawn[-1].lines == ("and 28 more streams", "56,000 queries")
    assert drawn[0].children[-1].lines == ("and 39 more families", "1,950 queries")
    assert len(list(all_boxes(drawn))) < 120


def test_a_bad_letter_is_shown_as_one_and_texts_stay_on_one_line() -> None:
    assert printable("a\nb\t c") == "a b c"
    assert printable("\x00x\u202e\ud800\uffff") == "\ufffdx\ufffd\ufffd\ufffd"
    assert fitted("abc", 1000.0) == "abc"
    assert text_width(fitted("m" * 500, 200.0)) <= 200.0


def test_the_background_is_white_and_nothing_registered_says_so() -> None:
    text = svg(SharingReport((), "weave"))
    assert '<rect width="100%" height="100%" fill="#ffffff"/>' in text
    assert "no query that could share slices is registered" in text
    assert 'bgcolor="white"' in dot(SharingReport((), "weave"))


def test_the_column_of_families_says_who_folds() -> None:
    family = a_report(a_tree(1, ["[RANGE 1 MINUTE SLIDE 1 SECOND]"] * 2, 1e6)).families
    assert "each row is folded once" in svg(SharingReport(family, "weave"))
    alone = svg(SharingReport(family, "none"))
    assert "each query folds the rows by itself" in alone
    assert "folded once" not in alone


def test_windows_in_few_letters() -> None:
    assert window_text("[RANGE 1 DAY SLIDE 15 MINUTES OFFSET 2 WEEKS]") == "range 1 d slide 15 min offset 2 w"
    assert window_text("[UNBOUNDED SLIDE 1 HOUR ALIGN '2026-01-05 00:00:00']") == (
        "UNBOUNDED slide 1 h ALIGN '2026-01-05 00:00:00'"
    )


def test_a_box_with_few_children_is_not_squeezed() -> None:
    tall, short = Box("tree", ("a", "b", "c", "d"), children=(Box("query", ("x",)),)), Box("query", ("y",))
    first, inner, second = placed((tall, short), 0.0, 0.0, (0.0, 0.0))
    assert isinstance(inner, PlacedBox)
    assert inner.middle == first.middle
    assert second.y > first.y + first.height


CQL = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT);
CREATE QUERY q AS SELECT MAX(v) FROM s [RANGE 9 S SLIDE 1 S];
CREATE QUERY longer AS SELECT MAX(v), COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 5 S];
CREATE QUERY again AS SELECT MAX(v) FROM s [RANGE 9 S SLIDE 1 S];
CREATE QUERY grouped AS SELECT k, SUM(v) FROM s [ROWS 10 SLIDE 5] WHERE v > 3 GROUP BY k;
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "file.cql").write_text(CQL)
    return str(tmp_path / "file.cql")


def explain(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["explain", *arguments], catch_exceptions=False)
    return outcome.exit_code, outcome.output


def test_the_suffix_decides_what_is_drawn(tmp_path: Path, file: str) -> None:
    for name, beginning in (("out.svg", "<svg "), ("out.DOT", "digraph "), ("out.gv", "digraph ")):
        code, output = explain(file, "--graph", str(tmp_path / name))
        assert (code, output) == (0, f"4 queries in 2 trees, drawn in {tmp_path / name}\n")
        assert (tmp_path / name).read_text().startswith(beginning)
    code, output = explain(file, "--graph", "-")
    assert code == 0
    assert output.startswith("digraph weave {")
    assert output.endswith("}\n")


def test_a_file_is_drawn_as_it_is_shared(tmp_path: Path, file: str) -> None:
    assert explain(file, "--graph", str(tmp_path / "out.svg"))[0] == 0
    picture = ET.fromstring((tmp_path / "out.svg").read_bytes())
    boxes = [[text.text for text in box.findall(f"{SVG}text")] for box in picture.findall(f"{SVG}svg")]
    names = [str(lines[0]) for lines in boxes]
    assert names[0] == "s"
    assert names[1].startswith("one group")
    assert names[2:6] == ["tree 1", "again", "q", "longer"]
    assert names[6].startswith("by k")
    assert names[7:] == ["tree 1", "grouped"]
    drawn = {name: lines[1:] for name, lines in zip(names, boxes, strict=True)}
    assert drawn["q"] == drawn["again"] == ["range 9 s slide 1 s"]
    assert drawn["longer"] == ["range 1 min slide 5 s"]
    assert drawn["grouped"] == ["rows 10 slide 5"]


def test_what_cannot_be_drawn_is_refused_in_words(tmp_path: Path, file: str) -> None:
    for name, found in (("out.png", "'.png'"), ("out", "missing")):
        code, output = explain(file, "--graph", str(tmp_path / name))
        assert code == 1
        assert f"its suffix is {found}" in " ".join(output.split())
        assert ".svg for a picture or .dot for Graphviz" in " ".join(output.split())
    assert "--graph and --query do not go together" in explain(file, "--graph", "-", "--query", "q")[1]
    assert "--graph and --json do not go together" in explain(file, "--graph", "-", "--json")[1]
    code, output = explain(file, "--graph", str(tmp_path / "absent" / "out.svg"))
    assert code == 1
    assert "cannot be written: No such file or directory" in " ".join(output.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.cql"]

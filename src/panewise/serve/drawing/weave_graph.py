"""Draws the weave: streams, the families whose rows are folded once, their trees, and the queries of each.

`svg` makes a picture for a browser, `dot` text for Graphviz; both show the same boxes. A few queries are drawn one by
one. Many queries of a tree are bundled by window, and of many trees only the most expensive are drawn, with one box for
the others, so a drawing has at most about a hundred boxes. The thicker a line, the greater the share of the estimated
cost behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from panewise.optimize.sharing.report.report_texts import (
    cost_text,
    count_text,
    counted,
    duration_text,
    rate_text,
    some_of,
)
from panewise.optimize.sharing.report.sharing_report import FamilyReport, SharingReport, TreeReport, spans
from panewise.serve.drawing.weave_layout import (
    COLUMN_GAP,
    LINE_HEIGHT,
    PADDING,
    TEXT_SIZE,
    Box,
    PlacedBox,
    fitted,
    placed,
    printable,
    text_width,
)

QUERIES_DRAWN_ONE_BY_ONE = 24
BUNDLES_MAX = 12  # of one tree
BUNDLES_MAX_IN_ALL = 48
TREES_MAX_IN_ALL = 12
FAMILIES_MAX_IN_ALL = 12
STREAMS_MAX = 12

MARGIN = 24.0
NOTE_SIZE = 12.0
TITLE_SIZE = 19.0
LINE_WIDTH_LEAST, LINE_WIDTH_SPAN = 1.5, 10.0

COLUMNS = (
    ("stream", "rows come in"),
    ("family", "each row is folded once, into slices"),
    ("tree", "slices are kept and combined"),
    ("query", "each window is answered"),
)
FOLD_ALONE = "each query folds the rows by itself"
FOOTNOTES = (
    "The thicker a line, the more processor time it stands for. Costs are estimates, per second of the stream.",
    "An edge is an instant where one slice ends and the next begins.",
)
FILLS = {
    "stream": ("#f6f8fa", "#57606a"),
    "family": ("#ddf4ff", "#0969da"),
    "tree": ("#fff8c5", "#9a6700"),
    "query": ("#dafbe1", "#1a7f37"),
    "more": ("#ffffff", "#8c959f"),
}
_UNITS = {
    "MICROSECOND": "us",
    "MILLISECOND": "ms",
    "SECOND": "s",
    "MINUTE": "min",
    "HOUR": "h",
    "DAY": "d",
    "WEEK": "w",
}
_DURATION = re.compile(rf"\b(\d+) ({'|'.join(_UNITS)})S?\b")
_WORD = re.compile(r"\b(RANGE|SLIDE|OFFSET|ROWS)(?= \d)")


def boxes_of(report: SharingReport) -> tuple[Box, ...]:
    """The boxes to draw: one tree of boxes for each stream."""
    streams = report.by_stream()
    shown, others = some_of(streams.items(), STREAMS_MAX, lambda stream: sum(family.cost for family in stream[1]))
    families_max = max(1, FAMILIES_MAX_IN_ALL // max(1, len(shown)))
    families_drawn = sum(min(families_max, len(families)) for _, families in shown)
    trees_max = max(1, TREES_MAX_IN_ALL // max(1, families_drawn))
    trees_drawn = sum(min(trees_max, len(family.trees)) for _, families in shown for family in families)
    bundles_max = max(1, min(BUNDLES_MAX, BUNDLES_MAX_IN_ALL // max(1, min(trees_drawn, TREES_MAX_IN_ALL))))
    if report.query_count <= QUERIES_DRAWN_ONE_BY_ONE:
        bundles_max = QUERIES_DRAWN_ONE_BY_ONE
    boxes = []
    for stream, families in shown:
        drawn, more = some_of(families, families_max, lambda family: family.cost)
        inner = [_family(family, report.cost, trees_max, bundles_max) for family in drawn]
        if more:
            queries = counted(sum(family.query_count for family in more), "query")
            inner.append(Box("more", (f"and {counted(len(more), 'more family')}", queries)))
        boxes.append(_stream(stream, families, tuple(inner)))
    if others:
        queries = counted(sum(family.query_count for _, families in others for family in families), "query")
        boxes.append(Box("more", (f"and {counted(len(others), 'more stream')}", queries)))
    return tuple(boxes)


def _stream(name: str, families: Sequence[FamilyReport], inner: tuple[Box, ...]) -> Box:
    queries = counted(sum(family.query_count for family in families), "query")
    return Box("stream", (name, _rows(families), queries), f"stream {name}", None, inner)


def _rows(families: Sequence[FamilyReport]) -> str:
    measured = [family.rows_per_second for family in families if family.rows_per_second is not None]
    if measured:
        return f"rows: {rate_text(max(measured))}"
    assumed = [rate for family in families if (rate := family.rows_per_second_assumed) is not None]
    return f"rows: {rate_text(max(assumed))} assumed" if assumed else "rows: not measured yet"


def _family(family: FamilyReport, total: float, trees_max: int, bundles_max: int) -> Box:
    shown, others = some_of(family.trees, trees_max, lambda tree: tree.cost_ns_per_second)
    inner = [_tree(tree, total, bundles_max) for tree in shown]
    if others:
        cost = sum(tree.cost_ns_per_second for tree in others)
        queries = counted(sum(len(tree.members) for tree in others), "query")
        title = f"and {counted(len(others), 'more tree')}"
        inner.append(Box("more", (title, queries, _cost(cost, total)), "", _share(cost, total)))
    grouping = f"by {family.grouping}" if family.grouping else "one group for all rows"
    groups = f", {counted(family.groups, 'group')}" if family.grouping and family.groups is not None else ""
    lines = (
        grouping + groups,
        *_selection_lines(family),
        f"states: {', '.join(family.states)}" if family.states else "",
        _edges("slice edges", family.composite_edges_per_second),
        f"folding rows: {duration_text(family.fold_cost)} per second",
        *(part[:1].upper() + part[1:] for part in family.saving.split(", ") if family.query_count > 1),
    )
    tip = "; ".join(filter(None, (grouping, *family.selections, *family.states, ", ".join(family.rules))))
    return Box("family", lines, tip, _share(family.cost, total), tuple(inner))


def _selection_lines(family: FamilyReport) -> tuple[str, ...]:
    if len(family.selections) > 1:
        return (counted(len(family.selections), "selection"),)
    return tuple(f"where {text}" for text in family.selections if text)


def _tree(tree: TreeReport, total: float, bundles_max: int) -> Box:
    slices = "" if tree.slices_held is None else f", {counted(tree.slices_held, 'slice')} held"
    queries = _queries(tree, bundles_max)
    bundled = len(queries) < len(tree.members)
    lines = (
        f"tree {tree.number}",
        f"{counted(len(tree.members), 'query')}, kept by {', '.join(dict.fromkeys(tree.technique.values()))}",
        *(f"{name}: {_shorter_units(text)}" for name, text in spans(w for w, _ in tree.windows).items() if bundled),
        _edges("edges", tree.edges_per_second) + slices,
        _cost(tree.cost_ns_per_second, total),
    )
    tip = "; ".join(f"{state} by {technique}" for state, technique in tree.technique.items())
    share = _share(tree.cost_ns_per_second, total)
    return Box("tree", lines, f"tree {tree.number}: {tip}", share, tuple(queries))


def _edges(words: str, per_second: float | None) -> str:
    return f"{words}: " + ("not measured yet" if per_second is None else rate_text(per_second))


def _cost(cost: float, total: float) -> str:
    share = _share(cost, total) * 100
    percent = "under 1 %" if 0 < share < 1 else f"{round(share)} %"
    return f"{duration_text(cost)} per second, {percent} of all"


def _share(cost: float, total: float) -> float:
    return min(1.0, max(0.0, cost / total)) if total > 0 else 0.0


def _queries(tree: TreeReport, bundles_max: int) -> list[Box]:
    if len(tree.members) <= bundles_max:
        return [Box("query", (name, window_text(window)), f"{name} {window}") for name, window in tree.members]
    windows = tree.windows
    shown = windows if len(windows) <= bundles_max else windows[: bundles_max - 1] or windows[:1]
    boxes = [Box("query", (f"{window_text(window)}  x {count_text(n)}",), window) for window, n in shown]
    if len(shown) < len(windows):
        rest = windows[len(shown) :]
        queries = counted(sum(n for _, n in rest), "query")
        boxes.append(Box("more", (f"and {counted(len(rest), 'more window')}", queries)))
    return boxes


def window_text(window: str) -> str:
    """A window as a short text.

    >>> window_text("[RANGE 90 SECONDS SLIDE 1 MINUTE]"), window_text("[PARTITION BY host ROWS 10 SLIDE 5]")
    ('range 90 s slide 1 min', 'PARTITION BY host rows 10 slide 5')
    """
    inner = window.removeprefix("[").removesuffix("]")
    return _WORD.sub(lambda word: word[0].lower(), _shorter_units(inner))


def _shorter_units(text: str) -> str:
    return _DURATION.sub(lambda found: f"{found[1]} {_UNITS[found[2]]}", text)


def headline(report: SharingReport) -> tuple[str, str]:
    """The title of a drawing and the line below it."""
    title = f"{counted(report.query_count, 'query')} in {counted(report.tree_count, 'tree')}"
    parts = (
        [f"sharing = '{report.sharing}'", cost_text(report.cost)]
        if report.query_count
        else ["no query that could share slices is registered"]
    )
    return title, ": ".join(filter(None, (", ".join(parts), report.saving)))


def svg(report: SharingReport) -> str:
    """The drawing as SVG, on white, so that it is also readable on a dark page."""
    columns = [(name, FOLD_ALONE if (name, report.sharing) == ("family", "none") else note) for name, note in COLUMNS]
    headings = tuple(max(text_width(name, bold=True), text_width(note, NOTE_SIZE)) for name, note in columns)
    top = MARGIN + TITLE_SIZE + LINE_HEIGHT + 70.0
    boxes = placed(boxes_of(report), MARGIN, top, headings)
    texts = [(text, TITLE_SIZE if index == 0 else TEXT_SIZE) for index, text in enumerate(headline(report))]
    notes = FOOTNOTES if boxes else ()
    inner = max(
        *(part.x + part.width - MARGIN for part in boxes),
        *(text_width(note, NOTE_SIZE) for note in notes),
        text_width(texts[0][0], TITLE_SIZE, bold=True),
        480.0,
    )
    foot = max((part.y + part.height for part in boxes), default=top - 50.0) + 36.0
    height = foot + len(notes) * LINE_HEIGHT + MARGIN - LINE_HEIGHT
    lines = [
        _text(MARGIN, MARGIN + TITLE_SIZE, texts[0][0], "title"),
        _text(MARGIN, MARGIN + TITLE_SIZE + LINE_HEIGHT + 6.0, fitted(printable(texts[1][0]), inner), "body"),
        *(_heading(column, name, note, boxes) for column, (name, note) in enumerate(columns)),
        *(_line(boxes[part.parent], part) for part in boxes if part.parent is not None),
        *map(_box, boxes),
        *(_text(MARGIN, foot + index * LINE_HEIGHT, note, "note") for index, note in enumerate(notes)),
    ]
    return _document(inner + 2 * MARGIN, height, texts[0][0], lines)


def _document(width: float, height: float, title: str, lines: list[str]) -> str:
    fills = "\n".join(f"    .{kind} {{ fill: {fill}; stroke: {line}; }}" for kind, (fill, line) in FILLS.items())
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"  <title>{escape(title)}</title>",
            "  <style>",
            f"    text {{ font: {TEXT_SIZE}px system-ui, sans-serif; fill: #24292f; }}",
            f"    .title {{ font-size: {TITLE_SIZE}px; font-weight: bold; }}",
            "    .strong { font-weight: bold; }",
            f"    .note {{ font-size: {NOTE_SIZE}px; fill: #57606a; }}",
            "    .more { stroke-dasharray: 4 3; }",
            "    .line { fill: none; stroke: #8c959f; stroke-linejoin: round; }",
            fills,
            "  </style>",
            '  <rect width="100%" height="100%" fill="#ffffff"/>',
            *(f"  {line}" for line in lines if line),
            "</svg>",
            "",
        )
    )


def _heading(column: int, name: str, note: str, boxes: list[PlacedBox]) -> str:
    first = next((part for part in boxes if part.column == column), None)
    if first is None:
        return ""
    y = MARGIN + TITLE_SIZE + LINE_HEIGHT + 36.0
    return _text(first.x, y, name, "strong") + _text(first.x, y + 16.0, note, "note")


def _line(parent: PlacedBox, child: PlacedBox) -> str:
    """A line from the right side of one box to the left side of the other; straight if they are level."""
    start, end = parent.x + parent.width, child.x
    bend = start + COLUMN_GAP / 2
    width = LINE_WIDTH_LEAST + LINE_WIDTH_SPAN * (child.box.share or 0.0)
    path = f"M{start:.1f} {parent.middle:.1f}H{bend:.1f}V{child.middle:.1f}H{end:.1f}"
    return f'<path class="line" stroke-width="{width:.2f}" d="{path}"/>'


def _box(part: PlacedBox) -> str:
    """A nested SVG, which clips text that an unusual font would draw outside the box."""
    texts = "".join(
        _text(PADDING, PADDING + 10.0 + index * LINE_HEIGHT, line, "strong" if index == 0 else "body")
        for index, line in enumerate(part.box.lines)
    )
    tip = f"<title>{escape(part.box.tip)}</title>" if part.box.tip else ""
    size = f'width="{part.width - 2:.1f}" height="{part.height - 2:.1f}"'
    rectangle = f'<rect class="{part.box.kind}" x="1" y="1" {size} rx="5"/>'
    place = f'x="{part.x:.1f}" y="{part.y:.1f}" width="{part.width:.1f}" height="{part.height:.1f}"'
    return f"<svg {place}>{tip}{rectangle}{texts}</svg>"


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class={quoteattr(style)}>{escape(text)}</text>'


def dot(report: SharingReport) -> str:
    """The drawing as text for Graphviz: `dot -Tsvg`, `dot -Tpdf`."""
    lines = [
        "digraph weave {",
        '  graph [rankdir=LR, bgcolor="white", fontname="sans-serif", labelloc=t, labeljust=l];',
        f"  graph [label={_quoted(headline(report))}];",
        '  node [shape=box, style="filled,rounded", fontname="sans-serif", fontsize=11];',
        '  edge [arrowhead=none, tailport=e, headport=w, color="#8c959f"];',
    ]
    for index, part in enumerate(placed(boxes_of(report), 0.0, 0.0, (0.0,) * len(COLUMNS))):
        fill, line = FILLS[part.box.kind]
        lines.append(f'  n{index} [label={_quoted(part.box.lines)}, fillcolor="{fill}", color="{line}"];')
        if part.parent is not None:
            width = 1.0 + LINE_WIDTH_SPAN / 2 * (part.box.share or 0.0)
            lines.append(f"  n{part.parent} -> n{index} [penwidth={width:.2f}];")
    return "\n".join((*lines, "}", ""))


def _quoted(lines: Sequence[str]) -> str:
    """A Graphviz label of left-aligned lines; backslashes, quotes and ampersands are escaped."""
    texts = (printable(line).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in lines)
    return '"' + "".join(f"{text}\\l" for text in texts) + '"'

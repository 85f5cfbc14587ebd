"""Draws docs/overview.svg: rows are touched once, slices hold partials, many windows read them.

Run `python tools/draw_overview.py` after a change. The slices are those of the windows drawn: their edges are where
some window starts or ends.
"""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

WIDTH, LEFT, RIGHT = 960, 190, 930
TIME_END = 60
# Name, range, slide and the ends of the reports that are drawn, in seconds.
WINDOWS = [
    ("RANGE 12 s  SLIDE 6 s", 12, (24, 30, 36, 42, 48, 54)),
    ("RANGE 30 s  SLIDE 10 s", 30, (30, 40, 50)),
    ("RANGE 45 s  SLIDE 9 s", 45, (54,)),
]
STYLE = """
    text { font: 14px system-ui, sans-serif; fill: #24292f; }
    .note { font-size: 12.5px; fill: #57606a; }
    .row { fill: #0969da; }
    .fall { stroke: #0969da; stroke-opacity: .35; }
    .slice { fill: #ddf4ff; stroke: #0969da; }
    .edge { stroke: #8c959f; stroke-dasharray: 2 4; }
    .window { fill: #1a7f37; fill-opacity: .18; stroke: #1a7f37; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .note { fill: #9da7b3; }
      .row { fill: #58a6ff; }
      .fall { stroke: #58a6ff; }
      .slice { fill: #0c2d6b; stroke: #58a6ff; }
      .edge { stroke: #6e7681; }
      .window { fill: #3fb950; stroke: #3fb950; }
    }
"""


def x(second: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * second / TIME_END, 1)


def draw() -> str:
    edges = {0, TIME_END}
    for _, window_range, ends in WINDOWS:
        edges.update(instant for end in ends for instant in (end - window_range, end))
    ordered = sorted(edges)
    chance = random.Random(3)
    rows = sorted(chance.uniform(0.5, TIME_END - 0.5) for _ in range(70))
    parts = [
        '<text x="14" y="44">rows</text>',
        '<text x="14" y="62" class="note">each is touched once</text>',
        '<text x="14" y="118">slices</text>',
        '<text x="14" y="136" class="note">a partial per group</text>',
    ]
    for second in rows:
        parts.append(f'<line class="fall" x1="{x(second)}" y1="50" x2="{x(second)}" y2="98"/>')
        parts.append(f'<circle class="row" cx="{x(second)}" cy="{chance.choice((36, 42, 48))}" r="3"/>')
    for start, end in pairwise(ordered):
        width = round(x(end) - x(start) - 2, 1)
        parts.append(f'<rect class="slice" x="{x(start) + 1}" y="100" width="{width}" height="36" rx="4"/>')
    top = 168
    bottom = top + sum(16 * min(len(ends), 3) + 34 for _, _, ends in WINDOWS)
    parts += [f'<line class="edge" x1="{x(at)}" y1="138" x2="{x(at)}" y2="{bottom - 20}"/>' for at in ordered]
    for name, window_range, ends in WINDOWS:
        lanes = min(len(ends), 3)
        parts.append(f'<text x="14" y="{top + 8 * lanes + 1}">{name}</text>')
        for number, end in enumerate(ends):
            y = top + 16 * (number % lanes)
            width = round(x(end) - x(end - window_range), 1)
            parts.append(
                f'<rect class="window" x="{x(end - window_range)}" y="{y}" width="{width}" height="11" rx="3"/>'
            )
        top += 16 * lanes + 34
    parts.append(
        f'<text x="{LEFT}" y="{bottom}" class="note">'
        "windows: every query combines the partials that it covers; no query sees a row</text>"
    )
    body = "\n  ".join(parts)
    title = "Rows fall into slices once; the windows of many queries are combined from the slices."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 16}" role="img">\n'
        f"  <title>{title}</title>\n  <style>{STYLE}  </style>\n  {body}\n</svg>\n"
    )


if __name__ == "__main__":
    target = Path(__file__).parents[1] / "docs" / "overview.svg"
    target.parent.mkdir(exist_ok=True)
    target.write_text(draw(), encoding="utf-8")
    print(f"wrote {target.name}")

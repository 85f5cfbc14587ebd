"""Plots of figures: panels of lines, saved as a file where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64]


@dataclass
class Panel:
    """One set of axes: lines by name, each as its x and y."""

    title: str
    x: str
    y: str
    lines: Mapping[str, tuple[Numbers, Numbers]] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False


def figures_folder() -> Path:
    """`build/bench` of the source tree, where `make clean` finds it."""
    return Path(__file__).parents[1] / "build" / "bench"


def save_plot(name: str, panels: Sequence[Panel], columns: int = 2) -> Path | None:
    """Draws the panels into one file and returns it; None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")  # a file, never a window
    from matplotlib import pyplot

    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(5.5 * columns, 3.6 * rows), squeeze=False)
    for place, axis in enumerate(axes.flat):
        if place >= len(panels):
            axis.set_visible(False)
            continue
        panel = panels[place]
        for mark, (label, (x, y)) in enumerate(panel.lines.items()):
            axis.plot(x, y, marker="osD^v*x"[mark % 7], markersize=4, linewidth=1.2, label=label)
        axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        axis.set_xscale("log" if panel.log_x else "linear")
        axis.set_yscale("log" if panel.log_y else "linear")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    figure.tight_layout()
    path = figures_folder() / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path

"""When windows report, and when all windows that hold a row have closed. An ending stream must advance to there."""

from __future__ import annotations

from panewise.plan.blocks import Block
from panewise.plan.inputs import has_several_inputs, report_window
from panewise.plan.nodes import Emit
from panewise.slicing.pairs import Cadence
from panewise.temporal import TimeWindow, Window


def cadence_of(window: Window) -> Cadence:
    """The reports of a periodic window, on its axis."""
    if isinstance(window, TimeWindow):
        assert window.slide_us is not None
        return Cadence(window.range_us, window.slide_us, window.offset_us, window.align_us)
    assert window.slide is not None
    return Cadence(window.rows, window.slide, window.offset)


def end_of(cadence: Cadence, newest: int) -> int:
    """The last report that shows a row of this time; for a window without a beginning, the first report."""
    end = cadence.last_report(newest + cadence.offset + (cadence.range or cadence.slide))
    return end if end > newest + cadence.offset else end + cadence.slide


def last_window(window: Window | None, newest: int) -> int:
    """When the last window that holds a row of this time closes; a continuous window drops the row after its range."""
    if isinstance(window, TimeWindow) and window.slide_us is not None:
        return end_of(cadence_of(window), newest)
    if isinstance(window, TimeWindow) and window.range_us is not None:
        return newest + window.range_us + window.offset_us + 1
    return newest + 1


def reports_by_time(plan: Emit, block: Block) -> Cadence | None:
    """When a query reports; None if its windows have no SLIDE in time."""
    window = report_window(plan) if has_several_inputs(plan) else block.window
    return cadence_of(window) if isinstance(window, TimeWindow) and window.slide_us is not None else None


def due_report(plan: Emit, block: Block, watermark: int) -> int | None:
    """The last report of a query up to an instant; None if its windows have no SLIDE in time."""
    cadence = reports_by_time(plan, block)
    return None if cadence is None else cadence.last_report(watermark)

"""When windows report, and when those that hold a row have closed: until then a stream that ends must go on."""

from __future__ import annotations

from panewise.plan.blocks import Block
from panewise.plan.inputs import has_several_inputs, report_window
from panewise.plan.nodes import Emit
from panewise.slicing.pairs import Cadence
from panewise.temporal import TimeWindow, Window


def cadence_of(window: Window) -> Cadence:
    """A periodic window on its axis."""
    if isinstance(window, TimeWindow):
        assert window.slide_us is not None
        return Cadence(window.range_us, window.slide_us, window.offset_us, window.align_us)
    assert window.slide is not None
    return Cadence(window.rows, window.slide, window.offset)


def end_of(cadence: Cadence, newest: int) -> int:
    """The last report that holds a row of this time; of a window without a beginning, the first."""
    end = cadence.last_report(newest + cadence.offset + (cadence.range or cadence.slide))
    return end if end > newest + cadence.offset else end + cadence.slide


def last_window(window: Window | None, newest: int) -> int:
    """The same for any window: a continuous one lets a row go when its range has passed."""
    if isinstance(window, TimeWindow) and window.slide_us is not None:
        return end_of(cadence_of(window), newest)
    if isinstance(window, TimeWindow) and window.range_us is not None:
        return newest + window.range_us + window.offset_us + 1
    return newest + 1


def reports_by_time(plan: Emit, block: Block) -> Cadence | None:
    """When a query reports; None where its windows have no SLIDE in time."""
    window = report_window(plan) if has_several_inputs(plan) else block.window
    return cadence_of(window) if isinstance(window, TimeWindow) and window.slide_us is not None else None


def due_report(plan: Emit, block: Block, come_to: int) -> int | None:
    """The last instant up to `come_to` at which a query reports; None where its windows have no SLIDE in time."""
    cadence = reports_by_time(plan, block)
    return None if cadence is None else cadence.last_report(come_to)

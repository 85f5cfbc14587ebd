"""When the windows that hold a row have closed: until then a stream that ends must go on."""

from __future__ import annotations

from panewise.plan.inputs import windowed_inputs
from panewise.runtime.channel import Channel
from panewise.runtime.consumers import TreeConsumer
from panewise.runtime.operator_consumer import OperatorConsumer
from panewise.runtime.plan_consumer import PlanConsumer
from panewise.slicing.pairs import Cadence
from panewise.temporal import TimeWindow, Window


def reads(consumer: TreeConsumer | OperatorConsumer | PlanConsumer, channel: Channel) -> bool:
    if isinstance(consumer, PlanConsumer):
        return any(read is channel for read in consumer.waits_for)
    return consumer.channel is channel


def cadence_of(window: Window) -> Cadence:
    """A periodic window on its axis."""
    if isinstance(window, TimeWindow):
        assert window.slide_us is not None
        return Cadence(window.range_us, window.slide_us, window.offset_us, window.align_us)
    assert window.slide is not None
    return Cadence(window.rows, window.slide, window.offset)


def end_of(cadence: Cadence, newest: int) -> int:
    """The last report that holds a row of this time; of a window without a beginning, the first."""
    end = newest + cadence.offset + (cadence.range or cadence.slide)
    end -= (end - cadence.align) % cadence.slide
    return end if end > newest + cadence.offset else end + cadence.slide


def last_window(window: Window | None, newest: int) -> int:
    """The same for any window: a continuous one lets a row go when its range has passed."""
    if isinstance(window, TimeWindow) and window.slide_us is not None:
        return end_of(cadence_of(window), newest)
    if isinstance(window, TimeWindow) and window.range_us is not None:
        return newest + window.range_us + window.offset_us + 1
    return newest + 1


def plan_ends(consumer: PlanConsumer, channel: Channel, newest: int) -> list[int]:
    """When the windows of all inputs have let their last rows go: a plan goes as far as the slowest of them."""
    windows = [node.window for node in windowed_inputs(consumer.query.plan)]
    ends = []
    for window, port in zip(windows, consumer.ports, strict=True):
        last = newest if port.channel is channel else port.channel.newest
        ends += [] if last is None else [last_window(window, last)]
    return ends

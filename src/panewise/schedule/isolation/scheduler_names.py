"""The schedulers by the names of Golab 2006, section 7.5.1, each with the level that it promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from panewise.schedule.isolation.latest_window_scheduler import LatestWindowScheduler
from panewise.schedule.isolation.levels import Level
from panewise.schedule.isolation.read_orders import by_sub_window
from panewise.schedule.isolation.schedulers import Scheduler
from panewise.schedule.isolation.serial_scheduler import SerialScheduler
from panewise.schedule.isolation.window_scheduler import WindowScheduler


@dataclass(frozen=True)
class NamedScheduler:
    make: Callable[[int], Scheduler]
    """From the number of sub-windows."""
    promises: Level


SCHEDULERS: dict[str, NamedScheduler] = {
    "Serial": NamedScheduler(SerialScheduler, Level.SERIAL),
    "WS": NamedScheduler(WindowScheduler, Level.WINDOW),
    "LWS": NamedScheduler(lambda count: LatestWindowScheduler(count, order=by_sub_window), Level.LATEST_WINDOW),
    "TTU": NamedScheduler(LatestWindowScheduler, Level.LATEST_WINDOW),
}

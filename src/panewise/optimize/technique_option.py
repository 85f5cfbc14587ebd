"""The option `technique` of a query: checks that the technique can keep the query's states and answer its window."""

from __future__ import annotations

from panewise.catalog import Options
from panewise.errors import PlanError
from panewise.plan.blocks import Block
from panewise.synopses.techniques import TECHNIQUES, technique_named
from panewise.temporal import RowsWindow, TimeWindow


def chosen_technique(options: Options) -> str | None:
    """The technique that a query's options name, in lower case; None if they name none."""
    name = dict(options).get("technique")
    return None if name is None else str(name).lower()


def check_technique(name: str, block: Block) -> None:
    """PlanError, with the reason, if the technique cannot keep one of the query's states or answer its window."""
    technique = technique_named(name)
    window = block.window
    periodic = block.aggregate is not None and block.periodic and not block.restore
    if not periodic or (isinstance(window, RowsWindow) and window.partition_by):
        raise PlanError(
            f"the technique '{name}' is only for aggregates over sliding windows",
            hint="give the window a SLIDE, or leave out the technique",
        )
    assert block.aggregate is not None
    offset = window.offset_us if isinstance(window, TimeWindow) else window.offset if window is not None else 0
    for call in block.aggregate.aggregates:
        for part in call.bound.parts:
            reason = technique.refusal(part.kind, offset)
            if reason is not None:
                others = [t.name for t in TECHNIQUES.values() if t.refusal(part.kind, offset) is None]
                raise PlanError(
                    f"the technique '{name}' cannot be used for {call.bound.name}: {reason}",
                    hint=f"{', '.join(others)} can" if others else "leave out the technique",
                )

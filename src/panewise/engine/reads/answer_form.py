"""The form in which a query gives its answer, and the instant since which its answer has been the same.

A program that shows answers learns from the first whether to look them up, and from the second when to do it again.
"""

from __future__ import annotations

from panewise.arrays import INT64_MIN
from panewise.catalog import Options
from panewise.engine.channels.window_ends import due_report
from panewise.language.statements import Emission
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit


def answer_form(plan: Emit, options: Options) -> str:
    """'reports': every report is the whole answer. 'changes': results say what has changed. 'lookup': there are no
    results, and the answer has to be looked up."""
    if dict(options).get("mode") == "lookup":
        return "lookup"
    return "reports" if plan.emission is Emission.RSTREAM and not plan.restore else "changes"


def answer_since(plan: Emit, block: Block, watermark: int) -> int | None:
    """The instant of the last report that was due, even if it had no rows. A lookup at that instant or later gives the
    present answer. For queries without reports by time: how far the query has come. None before there were rows."""
    if watermark == INT64_MIN:
        return None
    due = due_report(plan, block, watermark)
    return watermark if due is None else due

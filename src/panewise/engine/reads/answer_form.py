"""The form in which a query gives its answer, and the instant since which the answer has been the same.

Who shows answers learns from the first whether to look them up, and from the second when to do so again.
"""

from __future__ import annotations

from panewise.arrays import INT64_MIN
from panewise.catalog import Options
from panewise.engine.channels.window_ends import due_report
from panewise.language.statements import Emission as Emission
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit


def answer_form(plan: Emit, options: Options) -> str:
    """'reports': every report is the whole answer. 'changes': results say what has changed. 'lookup': there are no
    results, and the answer is given to who asks."""
    if dict(options).get("mode") == "lookup":
        return "lookup"
    return "reports" if plan.emission is Emission.RSTREAM and not plan.restore else "changes"


def answer_since(plan: Emit, block: Block, come_to: int) -> int | None:
    """The instant of the last report that was due, whether it had rows or not; how far the query has come where its
    reports are not a matter of time. A lookup up to there or later gives the answer of now. None before there was
    anything."""
    if come_to == INT64_MIN:
        return None
    due = due_report(plan, block, come_to)
    return come_to if due is None else due

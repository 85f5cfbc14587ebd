"""Checks that a valid statement has operators. Each refusal says what is missing and what to write instead.

`supported_plans` checks a plan, with `supported_inputs` for several inputs and `supported_tables` for tables.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.plan.supported.supported_plans import check_supported as check_supported

__getattr__, __dir__ = face(__name__, {"check_supported": "supported_plans"})

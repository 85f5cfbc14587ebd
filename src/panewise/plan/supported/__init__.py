"""Which valid statements have an operator: each refusal in words, with what to write instead."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.plan.supported.supported_plans import check_supported as check_supported

__getattr__, __dir__ = face(__name__, {"check_supported": "supported_plans"})

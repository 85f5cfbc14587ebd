"""Rewrites: plans that mean the same at every instant and cost less, a rule a file."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.optimize.rewrites.rewriting import rewrite as rewrite

__getattr__, __dir__ = face(__name__, {"rewrite": "rewriting"})

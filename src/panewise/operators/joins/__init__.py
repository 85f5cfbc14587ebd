"""The join of any number of windows: its predicates, keys, rows, loops and orders."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.operators.joins.window_join import WindowJoin as WindowJoin

__getattr__, __dir__ = face(__name__, {"WindowJoin": "window_join"})

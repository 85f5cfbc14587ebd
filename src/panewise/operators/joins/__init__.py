"""The join of any number of windows.

`window_join` is the operator; `ordered_join` adds measurements and other orders, `versioned_join` joins a table.
`join_keys` numbers the keys, `join_rows` holds the rows, `join_results` the results that may end early. `probe_plan`
says which index is used at each level, `probing` runs the compiled walks of `join_loops`, and `found_results` is the
room they write to. `keyed_rows` serves the other operators that hold rows by key.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.operators.joins.window_join import WindowJoin as WindowJoin

__getattr__, __dir__ = face(__name__, {"WindowJoin": "window_join"})

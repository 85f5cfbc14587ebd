"""The weave: which members of a family share a tree, and by which technique each tree answers.

`weaver` weaves a running family. `weaving` finds the best weave of windows, from `strands` of windows with equal edges,
with prices from `loom`; `many_trees` is its search for very many. `joining` finds a tree for a single new window.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.optimize.sharing.weave.weaver import Weaver as Weaver

__getattr__, __dir__ = face(__name__, {"Weaver": "weaver"})

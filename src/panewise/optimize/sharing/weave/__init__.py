"""The weave: which members of a family share a tree, and by which technique each tree answers."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.optimize.sharing.weave.weaver import Weaver as Weaver

__getattr__, __dir__ = face(__name__, {"Weaver": "weaver"})

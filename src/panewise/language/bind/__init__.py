"""From a syntax tree to typed statements: names are found in the catalog, types resolved, options checked."""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.language.bind.binder import bind_one as bind_one
    from panewise.language.bind.binder import parse as parse

__getattr__, __dir__ = face(__name__, {"bind_one": "binder", "parse": "binder"})

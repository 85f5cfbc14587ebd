"""From a syntax tree to a typed statement: finds names in the catalog, resolves types, checks options.

`binder` binds a statement, `bind_select` a query, `bind_expressions` an expression; the others bind one clause each.
`scope` says which columns a name may mean, and `binding` is what all parts share.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.language.bind.binder import bind_one as bind_one
    from panewise.language.bind.binder import parse as parse

__getattr__, __dir__ = face(__name__, {"bind_one": "binder", "parse": "binder"})

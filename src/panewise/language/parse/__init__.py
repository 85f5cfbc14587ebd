"""From text to a syntax tree and back: CQL as a dialect of sqlglot.

`dialect` is the way in. `tokens` makes tokens; `parse_expressions`, `parse_select` and `parse_statements` parse them,
each on top of the one before. `syntax` defines the nodes that sqlglot lacks, and `printer` prints all nodes.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.language.parse.dialect import parse as parse
    from panewise.language.parse.dialect import print_node as print_node

__getattr__, __dir__ = face(__name__, {"parse": "dialect", "print_node": "dialect"})

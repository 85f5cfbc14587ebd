"""The registry of running queries: it starts, changes and stops them as their physical plan says.

query_registry      the queries and the plan that they follow; `change` goes to the next plan
query_starter       starts one query, unless it comes too late (`late_queries`, `row_counts`)
running_families    families and cores that queries share
running_cores
block_operators     operators of queries that share nothing
history_reader      archived rows with which queries begin
read_graph          which channels feed which queries
lateness            how long reports wait for their rows
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.engine.hosting.query_registry import QueryRegistry as QueryRegistry

__getattr__, __dir__ = face(__name__, {"QueryRegistry": "query_registry"})

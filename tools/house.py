"""No module is in an import cycle: `python tools/house.py`, as a part of `make check`.

Imports for types alone count too: a cycle that is hidden behind TYPE_CHECKING is one for who reads the code.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]


def cycles(*packages: str) -> list[set[str]]:
    """Sets of modules that all import each other, directly or not."""
    graph = grimp.build_graph(*packages)
    found: list[set[str]] = []
    for module in sorted(graph.modules):
        if not any(module in known for known in found):
            around = {module, *graph.find_upstream_modules(module)} & {module, *graph.find_downstream_modules(module)}
            if len(around) > 1:
                found.append(around)
    return sorted(found, key=len)


def main() -> int:
    sys.path.insert(0, str(ROOT))  # where `papers` stands
    found = cycles("panewise", "papers")
    for one in found:
        print(f"an import cycle of {len(one)} modules: {', '.join(sorted(one))}")
    print(f"Modules in import cycles: {sum(map(len, found))}.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

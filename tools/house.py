"""How many modules are in import cycles: `python tools/house.py`, as a part of `make check`.

Imports for types alone count too: a cycle that is hidden behind TYPE_CHECKING is one for who reads the code. There are
to be none; until then their number may only fall.
"""

from __future__ import annotations

import sys

import grimp

MOST = 17


def cycles(package: str) -> list[set[str]]:
    """Sets of modules that all import each other, directly or not."""
    graph = grimp.build_graph(package)
    found: list[set[str]] = []
    for module in sorted(graph.modules):
        if not any(module in known for known in found):
            around = {module, *graph.find_upstream_modules(module)} & {module, *graph.find_downstream_modules(module)}
            if len(around) > 1:
                found.append(around)
    return sorted(found, key=len)


def main() -> int:
    found = cycles("panewise")
    count = sum(map(len, found))
    sizes = ", ".join(str(len(one)) for one in found)
    print(f"{count} modules in import cycles (of {sizes}), at most {MOST} are allowed")
    if count > MOST:
        for one in found:
            print(f"  {', '.join(sorted(one))}")
    return int(count > MOST)


if __name__ == "__main__":
    sys.exit(main())

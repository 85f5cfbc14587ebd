"""The shape of the source tree, and where it breaks the rules: `python tools/house.py`, a part of `make check`.

The first line has the figures of src/panewise; each line below it names one breach. Imports for types alone count.
`from package import module` counts as an import of both.
Import cycles are refused in `papers` too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median_high

ROOT = Path(__file__).parents[1]
LINES_MAX = 400
MODULES_IN_A_FOLDER_MAX = 20
TYPE_SWITCH = re.compile(r"isinstance\([^)]*(Consumer|Slices|Tree)\b")  # these have contracts to call instead

Imports = Mapping[str, set[str]]


@dataclass(frozen=True)
class Source:
    """A parsed file. Its path is relative to the folder that packages are imported from."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def is_face(self) -> bool:
        """Whether this is the `__init__` of a package."""
        return self.path.name == "__init__.py"

    @property
    def module(self) -> str:
        return ".".join(self.path.parent.parts if self.is_face else self.path.with_suffix("").parts)

    def classes(self) -> list[ast.ClassDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    def imported(self) -> Iterator[str]:
        """The dotted names that are imported anywhere in the file: modules, and names that may be modules."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


@dataclass(frozen=True)
class House:
    """What the rules are about. Names that stand twice come with their places."""

    sources: list[Source]
    folders: dict[Path, int]  # number of modules, without `__init__`
    cycles: list[set[str]]
    type_switches: list[str]
    basenames_twice: dict[str, list[str]]
    classes_twice: dict[str, list[str]]
    contracts: set[str]  # class names that a Protocol bears

    def summary(self) -> str:
        lines = [source.lines for source in self.sources]
        return (
            f"{sum(lines)} lines, {len(self.sources)} files, median {median_high(lines)}, longest {max(lines)}, "
            f"widest folder {max(self.folders.values())}, modules in import cycles {sum(map(len, self.cycles))}, "
            f"type switches {len(self.type_switches)}, basenames twice {len(self.basenames_twice)}, "
            f"class names twice {len(self.classes_twice)}"
        )

    def breaches(self) -> list[str]:
        """A line for each place that is against the rules. A class may be named as the contract that it fulfils."""
        long = [source for source in self.sources if source.lines > LINES_MAX]
        wide = {folder: count for folder, count in self.folders.items() if count > MODULES_IN_A_FOLDER_MAX}
        classes = {name: places for name, places in self.classes_twice.items() if name not in self.contracts}
        return [
            *(f"{source.path}: {source.lines} lines, more than {LINES_MAX}" for source in long),
            *(f"{folder}: {count} modules, more than {MODULES_IN_A_FOLDER_MAX}" for folder, count in wide.items()),
            *cycle_breaches(self.cycles),
            *(f"{place}: a type switch" for place in self.type_switches),
            *(f"{name}: a file in {' and in '.join(places)}" for name, places in self.basenames_twice.items()),
            *(f"{name}: a class in {' and in '.join(places)}" for name, places in classes.items()),
        ]


def cycle_breaches(cycles: list[set[str]]) -> list[str]:
    return [f"an import cycle of {len(cycle)} modules: {', '.join(sorted(cycle))}" for cycle in cycles]


def sources_below(folder: Path) -> list[Source]:
    """The Python files of a package and of the packages inside it."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Source(path.relative_to(folder.parent), text, ast.parse(text)))
    return found


def import_cycles(sources: list[Source]) -> list[set[str]]:
    """Sets of modules that all import each other, directly or by way of others; the smallest first."""
    modules = {source.module for source in sources}
    imports = {source.module: (modules & set(source.imported())) - {source.module} for source in sources}
    reached = {module: _reached_from(module, imports) for module in imports}
    cycles: list[set[str]] = []
    for module in sorted(modules):
        if module in reached[module] and not any(module in cycle for cycle in cycles):
            cycles.append({other for other in reached[module] if module in reached[other]})
    return sorted(cycles, key=len)


def _reached_from(module: str, imports: Imports) -> set[str]:
    """What a module imports, directly or by way of others: itself too where it is in a cycle."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        found = imports[waiting.pop()] - reached
        reached |= found
        waiting += found
    return reached


def inspected(sources: list[Source]) -> House:
    """The house that the files of a package make."""
    files = [source for source in sources if not source.is_face]
    basenames, classes = defaultdict(list), defaultdict(list)
    for source in files:
        basenames[source.path.name].append(str(source.path.parent))
    for source in sources:
        for node in source.classes():
            classes[node.name].append(str(source.path))
    return House(
        sources=sources,
        folders=dict(Counter(source.path.parent for source in files)),
        cycles=import_cycles(sources),
        type_switches=[
            f"{source.path}:{source.text.count(chr(10), 0, found.start()) + 1}"
            for source in sources
            for found in TYPE_SWITCH.finditer(source.text)
        ],
        basenames_twice={name: places for name, places in basenames.items() if len(places) > 1},
        classes_twice={name: places for name, places in classes.items() if len(places) > 1},
        contracts={node.name for source in sources for node in source.classes() if _is_contract(node)},
    )


def _is_contract(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split("[")[0].endswith("Protocol") for base in node.bases)


def main(root: Path = ROOT) -> int:
    """Prints the figures and the breaches; 1 where there are any."""
    house = inspected(sources_below(root / "src" / "panewise"))
    breaches = house.breaches() + cycle_breaches(import_cycles(sources_below(root / "papers")))
    print(house.summary())
    for breach in breaches:
        print(breach)
    return int(bool(breaches))


if __name__ == "__main__":
    sys.exit(main())

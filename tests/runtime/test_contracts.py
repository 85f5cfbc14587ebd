"""Hosts ask contracts: no module of the runtime asks of which class a channel, consumer, operator or store is."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "panewise"
CONTRACTS = {
    *("Channel", "Reader", "Folding", "Together", "Postponed", "Past", "PortOwner", "QueryConsumer", "Finish"),
    *("RowOperator", "DeltaOperator", "CoreOperator", "SliceStore"),
}


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def kept_contracts() -> set[str]:
    """The contracts and all classes that keep them, by name."""
    classes = [
        (node.name, {name_of(base) for base in node.bases})
        for path in SOURCES.rglob("*.py")
        if path.parts[-2] != "plan"  # nodes of plans share names with operators
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    found = set(CONTRACTS)
    while more := {name for name, bases in classes if bases & found} - found:
        found |= more
    return found


def asked_classes(path: Path) -> list[tuple[int, str]]:
    """The classes that a module asks values for, with the lines; those of plan nodes aside."""
    tree = ast.parse(path.read_text())
    of_plans = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("panewise.plan")
        for alias in node.names
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and name_of(node.func) == "isinstance"]
    asked = [(call.lineno, name_of(part)) for call in calls for part in ast.walk(call.args[1])]
    matched = [(node.lineno, name_of(node.cls)) for node in ast.walk(tree) if isinstance(node, ast.MatchClass)]
    return [(line, name) for line, name in asked + matched if name and name not in of_plans]


def test_no_host_asks_which_class_somebody_is_of_who_keeps_a_contract() -> None:
    contracts = kept_contracts()
    assert {"HostedQuery", "Stream", "Keeper", "FamilyConsumer", "OrderedJoin", "SparseSlices"} <= contracts
    found = [
        f"{path.relative_to(SOURCES)}:{line} asks for {name}"
        for path in sorted((SOURCES / "runtime").rglob("*.py"))
        for line, name in asked_classes(path)
        if name in contracts
    ]
    assert not found

"""Hosts ask contracts: no module of the runtime asks of which class a channel, consumer, operator or store is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.places import ROOT

SOURCES = ROOT / "src" / "panewise"
CONTRACTS = {
    *("Channel", "Reader", "Folding", "FamilyFolding", "Postponed", "Past", "PortOwner", "QueryConsumer", "Finish"),
    *("RowOperator", "DeltaOperator", "Core", "SliceStore"),
}


# What is assigned by methods of its own class alone, in the folder where somebody might.
OWN_FIELDS = {
    "operators/family": {
        *("held_from", "reported", "first_report", "begun", "endless", "window", "shape", "row"),
        *("passing", "touched"),
    },
    "engine": {
        *("status", "reason", "whole_from", "counts_all", "begins_by_count", "overflows", "rows_max", "empty_batch"),
        "entering",
    },
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
        for path in sorted((SOURCES / "engine").rglob("*.py"))
        for line, name in asked_classes(path)
        if name in contracts
    ]
    assert not found


def assigned_from_outside(path: Path, fields: set[str]) -> list[int]:
    """The lines where such a field of somebody else is assigned, or a part of it."""
    lines = []
    for node in ast.walk(ast.parse(path.read_text())):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            continue
        parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        parts = [part.value if isinstance(part, ast.Subscript) else part for part in parts]
        lines += [
            node.lineno
            for part in parts
            if isinstance(part, ast.Attribute) and part.attr in fields and name_of(part.value) != "self"
        ]
    return lines


@pytest.mark.parametrize("folder", OWN_FIELDS)
def test_members_and_queries_are_told_what_happens_and_assigned_by_themselves(folder: str) -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}"
        for path in sorted((SOURCES / folder).rglob("*.py"))
        for line in assigned_from_outside(path, OWN_FIELDS[folder])
    ]
    assert not found

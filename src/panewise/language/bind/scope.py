"""The columns that a name may mean: those of a SELECT's inputs and, inside EXISTS, of the SELECT around it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from panewise.errors import did_you_mean
from panewise.language.bind.binding import Binding
from panewise.language.expressions import ColumnRef
from panewise.schema import Column, Schema

# Columns that reports add. No item of SELECT may have one of these names.
REPORT_COLUMNS = ("window_start", "window_end", "instant", "change")


@dataclass(frozen=True)
class ScopeSource:
    """An input under its alias. `report`: the input is a query, whose report columns `*` leaves out."""

    alias: str
    schema: Schema
    report: bool = False

    def shown(self) -> list[Column]:
        return [column for column in self.schema if not (self.report and column.name in REPORT_COLUMNS)]


@dataclass(frozen=True)
class Scope:
    """The inputs in order. `merged`: the columns of USING in lower case, each of which counts as one column."""

    sources: tuple[ScopeSource, ...]
    outer: Scope | None = None
    merged: frozenset[str] = frozenset()
    qualified: bool = False  # columns have their input's alias even if there is only one input

    def reference(self, source: ScopeSource, column: Column) -> ColumnRef:
        several = self.qualified or len(self.sources) > 1
        return ColumnRef(column.type, column.name, source.alias if several else None)

    def find(self, node: exp.Column, binding: Binding) -> ColumnRef:
        name, qualifier = node.name, node.table
        if node.args.get("db") is not None:
            raise binding.error("a column has at most one qualifier", node, "write alias.column")
        found = self.matches(name, qualifier)
        if not found:
            outer = self._found_outside(node, binding)
            if outer is not None:
                return outer
            raise self._unknown(node, binding)
        if len(found) > 1 and name.lower() not in self.merged:
            choices = " or ".join(f"{source.alias}.{column.name}" for source, column in found)
            raise binding.error(f"column '{name}' is ambiguous", node, f"write {choices}")
        return self.reference(*found[0])

    def matches(self, name: str, qualifier: str) -> list[tuple[ScopeSource, Column]]:
        found = []
        for source in self.sources:
            column = source.schema.find(name)
            if column is not None and qualifier.lower() in ("", source.alias.lower()):
                found.append((source, column))
        return found

    def _found_outside(self, node: exp.Column, binding: Binding) -> ColumnRef | None:
        if self.outer is None:
            return None
        own = {source.alias.lower() for source in self.sources}
        if node.table and node.table.lower() in own:
            return None
        found = self.outer.matches(node.name, node.table)
        if not found and self.outer.outer is None:
            return None
        reference = self.outer.find(node, binding)
        alias = reference.source or self.outer.sources[0].alias
        if alias.lower() in own:
            raise binding.error(
                f"'{alias}' names an input inside and outside of EXISTS", node, "give one of them another alias"
            )
        return ColumnRef(reference.type, reference.name, alias)

    def _unknown(self, node: exp.Column, binding: Binding) -> Exception:
        name, qualifier = node.name, node.table
        aliases = [source.alias for source in self.sources]
        if qualifier:
            source = next((s for s in self.sources if s.alias.lower() == qualifier.lower()), None)
            if source is None:
                return binding.error(f"there is no input '{qualifier}'", node, did_you_mean(qualifier, aliases))
            hint = did_you_mean(name, source.schema.names)
            return binding.error(f"'{source.alias}' has no column '{name}'", node, hint)
        known = [column for source in self.sources for column in source.schema.names]
        hint = did_you_mean(name, known)
        if name.lower() in ("window_start", "window_end"):
            hint = "every report has window_start and window_end; do not select them"
        elif node.this.args.get("quoted") and not hint.startswith("did you mean"):
            doubled = name.replace("'", "''")
            hint = f"write a text in single quotes: '{doubled}'"
        return binding.error(f"there is no column '{name}'", node, hint)

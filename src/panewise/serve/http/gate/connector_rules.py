"""Restricts the connectors of statements that come over the network to files in the server's own folder.

A connector can read and write whatever the server's process can. A statement of a caller is therefore refused if its
connector leaves the folder `files` of the data folder, also by symbolic links or `..`. Without a data folder, all
connectors with paths are refused. The file that the server is started with is trusted and may name anything.
"""

from __future__ import annotations

import glob
from pathlib import Path

from sqlglot import exp

from panewise.errors import ConnectorError
from panewise.language.bind.binder import ParsedStatement
from panewise.language.parse import syntax as nodes

FILES = "files"
_WITHOUT_PATH = ("generator",)
_WITH_PATH = ("csv", "json", "parquet")
_ONLY_READ = (nodes.ShowDefinitions, nodes.ExplainStatement, exp.Select, exp.SetOperation)
_CREATES = (
    nodes.CreateStreamNode,
    nodes.CreateTableNode,
    nodes.CreateSinkNode,
    nodes.CreateQueryNode,
    nodes.CreateArchiveNode,
)


def only_reads(parsed: ParsedStatement) -> bool:
    """Whether a statement changes nothing: SHOW, EXPLAIN, SELECT."""
    return only_reads_node(parsed.node)


def only_reads_node(node: exp.Expr) -> bool:
    """Whether a statement with this syntax tree changes nothing."""
    return isinstance(node, _ONLY_READ)


def selects(parsed: ParsedStatement) -> bool:
    """Whether a statement is a one-time query."""
    return isinstance(parsed.node, exp.Select | exp.SetOperation)


def adds_definition(parsed: ParsedStatement) -> bool:
    """Whether a statement creates a definition."""
    return isinstance(parsed.node, _CREATES)


def adds_query(parsed: ParsedStatement) -> bool:
    """Whether a statement creates a query."""
    return isinstance(parsed.node, nodes.CreateQueryNode)


def check_connectors(parsed: ParsedStatement, folder: Path | None) -> None:
    """ConnectorError if a statement names anything outside the folder."""
    # Check every statement that has options, also of kinds not known here, so that a new kind is never unchecked.
    options = _options(parsed.node)
    connector, path = options.get("connector"), options.get("path")
    if connector is None and path is None:
        return
    if connector is not None and connector.lower() in _WITHOUT_PATH and path is None:
        return
    archived = isinstance(parsed.node, nodes.CreateArchiveNode) and connector is None
    if not archived and (connector is None or connector.lower() not in _WITH_PATH):
        named = "a path" if connector is None else f"the connector '{connector}'"
        raise ConnectorError(
            f"{named} is not allowed in statements that come over the network",
            hint="put the statement into the file that the server is started with",
        )
    if path is None:
        raise ConnectorError(f"the connector '{connector}' needs the option 'path'")
    if folder is None:
        raise ConnectorError(
            "this server has no data folder, and statements over the network may name no other files",
            hint="start it with --path, or put the statement into the file that it is started with",
        )
    _check_inside(path, folder / FILES)


def check_run(parsed: ParsedStatement) -> None:
    """ConnectorError for a source or a sink; only those of the file that the server is started with are run.

    Otherwise the statement would be acknowledged and have no effect before the next start, which it could make fail.
    """
    if isinstance(parsed.node, nodes.CreateTableNode | nodes.CreateArchiveNode) or "connector" not in _options(
        parsed.node
    ):
        return
    raise ConnectorError(
        "the server runs only sources and sinks of the file that it is started with",
        hint="put the statement into that file; or push rows to a stream without a connector, and read results live",
    )


def _check_inside(path: str, folder: Path) -> None:
    refusal = ConnectorError(
        "statements over the network may only name files in the server's folder, by their whole path",
        hint=f"write '{folder}/...'",
    )
    try:
        inside = folder.resolve()
        if "\x00" in path or ".." in Path(path).parts:
            raise refusal
        fixed = Path(path)
        while glob.has_magic(str(fixed)):
            fixed = fixed.parent
        # Check the part before the wildcards first, so that nothing outside the folder is searched.
        if not fixed.resolve().is_relative_to(inside):
            raise refusal
        found = [*(Path(name) for name in glob.glob(path, recursive=True)), *_links_below(fixed)]
        if not all(place.resolve().is_relative_to(inside) for place in found):
            raise refusal
    except (OSError, ValueError, RuntimeError):
        raise refusal from None


def _links_below(place: Path) -> list[Path]:
    """The symbolic links in a folder; reading the folder follows them."""
    return [child for child in place.rglob("*") if child.is_symlink()] if place.is_dir() else []


def _options(node: exp.Expr) -> dict[str, str]:
    """The options `connector` and `path`; ConnectorError if one is written twice or is not a string."""
    found: dict[str, str] = {}
    if only_reads_node(node):
        return found
    for option in node.args.get("options") or []:
        name, value = option.this.name.lower(), option.expression
        if name not in ("connector", "path"):
            continue
        if name in found or not (isinstance(value, exp.Literal) and value.is_string):
            raise ConnectorError(f"the option '{name}' must be a string in quotes, written once")
        found[name] = value.name
    return found

"""What statements that come over the network may name outside the engine: files in the server's own folder, no others.

A connector reads and writes what the server's process may. A statement of a caller is therefore refused where its
connector reaches further than the folder `files` in the data folder, symbolic links and `..` followed; without a data
folder all connectors with paths are. The file that the server is started with is its owner's word and may name
anything.
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
    """The same of its tree."""
    return isinstance(node, _ONLY_READ)


def selects(parsed: ParsedStatement) -> bool:
    """Whether it is a one-time query."""
    return isinstance(parsed.node, exp.Select | exp.SetOperation)


def adds_definition(parsed: ParsedStatement) -> bool:
    """Whether there is one definition more after it."""
    return isinstance(parsed.node, _CREATES)


def adds_query(parsed: ParsedStatement) -> bool:
    """Whether there is one query more after it."""
    return isinstance(parsed.node, nodes.CreateQueryNode)


def check_connectors(parsed: ParsedStatement, folder: Path | None) -> None:
    """ConnectorError where a statement reaches further than the folder."""
    # Of every statement that has options, known here or not: so that none that is new reaches further by oversight.
    options = _options(parsed.node)
    connector, path = options.get("connector"), options.get("path")
    if connector is None and path is None:
        return
    if connector is not None and connector.lower() in _WITHOUT_PATH and path is None:
        return
    archived = isinstance(parsed.node, nodes.CreateArchiveNode) and connector is None
    if not archived and (connector is None or connector.lower() not in _WITH_PATH):
        named = "such a path" if connector is None else f"the connector '{connector}'"
        raise ConnectorError(
            f"{named} is not for statements that come over the network",
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
    """ConnectorError for a source or a sink, where those of the file that the server is started with are run alone.

    It would be acknowledged and do nothing; and at the next start, when it would, it could hinder that.
    """
    if isinstance(parsed.node, nodes.CreateTableNode | nodes.CreateArchiveNode) or "connector" not in _options(
        parsed.node
    ):
        return
    raise ConnectorError(
        "the server reads sources and writes sinks of the file that it is started with, and of no other statements",
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
        # First what it begins with: only inside the folder is anything searched.
        if not fixed.resolve().is_relative_to(inside):
            raise refusal
        found = [*(Path(name) for name in glob.glob(path, recursive=True)), *_links_below(fixed)]
        if not all(place.resolve().is_relative_to(inside) for place in found):
            raise refusal
    except (OSError, ValueError, RuntimeError):
        raise refusal from None


def _links_below(place: Path) -> list[Path]:
    """The links in a folder: what they lead to is read with it."""
    return [child for child in place.rglob("*") if child.is_symlink()] if place.is_dir() else []


def _options(node: exp.Expr) -> dict[str, str]:
    """`connector` and `path` where they are written: once, and as plain texts."""
    found: dict[str, str] = {}
    if only_reads_node(node):
        return found
    for option in node.args.get("options") or []:
        name, value = option.this.name.lower(), option.expression
        if name not in ("connector", "path"):
            continue
        if name in found or not (isinstance(value, exp.Literal) and value.is_string):
            raise ConnectorError(f"the option '{name}' is a text in quotes, written once")
        found[name] = value.name
    return found

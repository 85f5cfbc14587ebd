"""The options of CREATE ARCHIVE: checks that the required ones are given and that they fit the source."""

from __future__ import annotations

from panewise.catalog import QueryDefinition, StreamDefinition
from panewise.errors import did_you_mean
from panewise.language.bind.archive_layout import OWN
from panewise.language.bind.bind_options import bind_options
from panewise.language.bind.binding import Binding
from panewise.language.parse import syntax as nodes
from panewise.language.statements import Options
from panewise.schema import Schema
from panewise.temporal import duration_us

DEFAULT_EVERY = "1 minute"
_NEEDED = ("path", "key", "lifetime")
_EXAMPLE = "WITH (path = '...', key = 'column', lifetime = '30 days')"


def bind_archive_options(
    node: nodes.CreateArchiveNode, source: QueryDefinition | StreamDefinition, binding: Binding
) -> Options:
    """The checked options, in the order given. The columns of the key are spelled as declared."""
    options = dict(bind_options(node.args.get("options"), "archive", binding))
    for name in _NEEDED:
        if name not in options:
            raise binding.error(f"an archive needs the option '{name}'", node.this, _EXAMPLE)
    places = {option.this.name.lower(): option for option in node.args.get("options") or []}
    options["key"] = ", ".join(_key(str(options["key"]), source.schema, places["key"], binding))
    if options["lifetime"] == OWN and source.kind == "stream":
        raise binding.error(
            "rows of a stream have no lifetimes of their own", places["lifetime"], "write a lifetime such as '1 day'"
        )
    every = duration_us(str(options.get("every", DEFAULT_EVERY)))
    lifetime = None if options["lifetime"] == OWN else duration_us(str(options["lifetime"]))
    for name, duration in (("lifetime", lifetime), ("every", every)):
        if duration is not None and duration <= 0:
            raise binding.error(f"'{name}' must be longer than zero", places[name])
    if lifetime is not None and every > lifetime:
        raise binding.error(
            f"'every' ({options.get('every', DEFAULT_EVERY)}) is longer than 'lifetime' ({options['lifetime']})",
            places.get("every", places["lifetime"]),
            "rows must be written before their lifetime ends",
        )
    return tuple(options.items())


def _key(text: str, schema: Schema, place: nodes.OptionNode, binding: Binding) -> list[str]:
    found: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        column = schema.find(name)
        if column is None:
            raise binding.error(f"there is no column '{name}'", place, did_you_mean(name, schema.names))
        if column.name in found:
            raise binding.error(f"column '{column.name}' is in the key twice", place)
        found.append(column.name)
    return found

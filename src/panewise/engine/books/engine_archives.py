"""The archives of an engine: created, altered, dropped, and restored from snapshots.

A statement that creates or alters an archive accesses the disk at once, and is refused if that fails. During recovery
from a snapshot or a log, an archive that the disk refuses is FAILED, and everything else goes on.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from panewise.catalog import ArchiveDefinition, Catalog, Options
from panewise.engine.archives.archive_keeper import Keeper
from panewise.engine.archives.archive_own_lifetimes import AnswerKeeper, ReportsKeeper
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.entering_rows import EnteringRows, answer_schema
from panewise.engine.durability.found_outside import UNKNOWN
from panewise.engine.hosting.query_registry import QueryRegistry
from panewise.errors import ArchiveError, CatalogError, DurabilityWarning, PlanError
from panewise.language.bind.archive_layout import DEFAULT_LAYOUT, OWN, parse_layout
from panewise.language.bind.bind_archives import DEFAULT_EVERY
from panewise.plan.longest_life import longest_life
from panewise.temporal import duration_us

if TYPE_CHECKING:
    from panewise.archive.archive import Archive
    from panewise.archive.layout import Layout, Style


class Archives:
    """The archives by lower-case name.

    `only_books`: they have definitions and no files. `lenient`: an archive that the disk refuses is FAILED, and nothing
    is raised.
    """

    def __init__(self, catalog: Catalog, hosting: QueryRegistry, channel_of: Callable[[str], Channel]) -> None:
        self._catalog = catalog
        self._hosting = hosting
        self._channel_of = channel_of
        self.keepers: dict[str, Keeper] = {}
        self._only_books = False
        self._lenient = False

    def __getitem__(self, name: str) -> Keeper:
        return self.keepers[name.lower()]

    def find(self, name: str) -> Keeper | None:
        return self.keepers.get(name.lower())

    def knowing_past_of(self, channel: Channel) -> list[Keeper]:
        """The archives that know the past of a channel, in the order of their creation."""
        return [keeper for keeper in self.keepers.values() if keeper in channel.past]

    # -- statements --------------------------------------------------------------------------------------------------

    def create(self, definition: ArchiveDefinition, cut: int | None = UNKNOWN) -> None:
        """Creates an archive. `cut`: how far the one in its folder has come; None if that is new or empty."""
        self._check_folder(definition)
        keeper = self._new_keeper(definition)
        try:
            self._begin(keeper, cut)
        except BaseException:
            keeper.let_go()
            raise
        self.keepers[definition.name.lower()] = keeper

    def _begin(self, keeper: Keeper, cut: int | None) -> None:
        if not self._only_books:
            known = last_cut(keeper.definition.path) if cut == UNKNOWN else cut
            self._open(keeper)
            keeper.begin(known)
        keeper.attach()

    def _new_keeper(self, definition: ArchiveDefinition) -> Keeper:
        if dict(definition.options)["lifetime"] != OWN:
            return Keeper(definition, self._channel_of(definition.source), layout_of(definition.options))
        query = self._hosting.queries[definition.source.lower()]
        longest = longest_life(definition.source, query.plan)
        layout = layout_of(definition.options, longest)
        if query.plan.periodic:
            return ReportsKeeper(definition, query, layout, longest)
        definition = replace(definition, schema=answer_schema(query.plan))
        for name in definition.key:
            if name not in definition.schema.names:
                raise PlanError(
                    f"'{name}' is not a column of the answer of '{definition.source}', and cannot be in the key"
                )
        self._catalog.change(definition.name, schema=definition.schema)
        entering = query.entering
        if entering is None:
            consumer = self._hosting.consumers[query.name]
            entering = EnteringRows(query.name, query.plan, consumer.relation, consumer.watermark)
        return AnswerKeeper(definition, query, entering, layout, longest)

    def drop(self, name: str) -> None:
        """Drops an archive. Its files stay."""
        keeper = self.keepers.pop(name.lower())
        keeper.detach()
        keeper.close()

    def alter(self, definition: ArchiveDefinition) -> Migration | None:
        """Gives an archive new options, and tries again if it has failed. Returns what is left to do outside turns."""
        keeper = self[definition.name]
        before, keeper.definition = keeper.definition, definition
        try:
            return None if self._only_books else self._alter(keeper)
        except BaseException:
            keeper.definition = before
            raise

    def _alter(self, keeper: Keeper) -> Migration | None:
        if keeper.archive is None:
            self._open(keeper)
        if keeper.archive is None:
            return None
        layout = self._altered(keeper, keeper.archive)
        if keeper.status == "FAILED":
            keeper.resume()
        if keeper.status == "FAILED" and not self._lenient:
            raise ArchiveError(keeper.reason, hint="new rows are held in memory; ALTER ARCHIVE tries again")
        return Migration(self, keeper, layout)

    def _altered(self, keeper: Keeper, archive: Archive) -> Layout:
        """The layout that the options ask for: the cheapest for the reads so far if they say 'by cost'."""
        from panewise.archive.cost import STYLES, cheapest, workload_of

        options = keeper.definition.options
        layout = layout_of(options, keeper.longest_us)
        if parse_layout(str(dict(options).get("layout", DEFAULT_LAYOUT))) != "by cost":
            return layout
        before = archive.layout
        styles: tuple[Style, ...] = STYLES if "update" not in dict(options) else (layout.style,)
        return cheapest(workload_of(archive), before.every_us, before.lifetime_us, styles=styles)

    def _check_folder(self, definition: ArchiveDefinition) -> None:
        """CatalogError if the folder is that of another archive of this engine, or lies inside or above it."""
        own = _folder_of(definition.path)
        for other in self.keepers.values():
            place = _folder_of(other.definition.path)
            if place == own:
                raise CatalogError(
                    f"the archive '{other.definition.name}' is in '{definition.path}' already",
                    hint="each archive needs a folder of its own",
                )
            inside, above = f"{own}/".startswith(f"{place}/"), f"{place}/".startswith(f"{own}/")
            if inside or above:
                raise CatalogError(
                    f"'{own}' lies {'inside' if inside else 'above'} the folder of the archive "
                    f"'{other.definition.name}', '{place}'",
                    hint="each archive needs a folder of its own, outside all others",
                )

    def _open(self, keeper: Keeper) -> None:
        """Opens the files for writing. A second writer is refused here, before it has taken any row."""
        try:
            archive = opened(keeper.definition, keeper.layout)
            try:
                archive.hold()
            finally:
                keeper.adopt(archive)  # it can be read, even if somebody else writes it
        except ArchiveError as problem:
            if not self._lenient:
                raise
            keeper.fail(problem.message)

    # -- recovery ----------------------------------------------------------------------------------------------------

    @property
    def only_books(self) -> bool:
        return self._only_books

    @property
    def lenient(self) -> bool:
        return self._lenient

    def keep_only_books(self) -> None:
        """No file is read or written from now on."""
        self._only_books = True

    @contextmanager
    def keeping_only_books(self) -> Iterator[None]:
        """No file is read or written until the end of the block."""
        self._only_books, outer = True, self._only_books
        try:
            yield
        finally:
            self._only_books = outer

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """The archives are lenient until the end of the block: the disk may refuse what it accepted before."""
        self._lenient, outer = True, self._lenient
        try:
            yield
        finally:
            self._lenient = outer

    # -- files and state -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Writes all rows into files, as far as these can be written."""
        for keeper in self.keepers.values():
            keeper.settle()

    def close(self, logged: bool) -> None:
        """Closes all archives. Warns of rows that are in no file, unless they are `logged` and come back from there."""
        for keeper in self.keepers.values():
            keeper.close()
            waiting = keeper.held_count
            if waiting and not self._only_books and not logged:
                reason = keeper.reason or "they are reports that were due after the year 9999"
                warnings.warn(
                    f"{waiting} rows of archive '{keeper.definition.name}' are not in its files: {reason}",
                    DurabilityWarning,
                    stacklevel=3,
                )

    def release(self) -> None:
        """Releases the files, so that others may write them."""
        for keeper in self.keepers.values():
            keeper.let_go()

    def snapshot(self) -> dict[str, Any]:
        return {name: keeper.snapshot() for name, keeper in self.keepers.items()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restores archives that were created again without files, after streams and queries have been restored."""
        for name, state in snapshot.items():
            keeper = self.keepers[name]
            keeper.restore(state)
            self._open(keeper)

    def stats(self) -> dict[str, Any]:
        return {keeper.definition.name: keeper.stats() for keeper in self.keepers.values()}


class Migration:
    """Brings an archive to a new layout. `finish` is called outside all turns, while the engine goes on."""

    def __init__(self, archives: Archives, keeper: Keeper, layout: Layout) -> None:
        self._archives = archives
        self._keeper = keeper
        self._layout = layout
        self._lenient = archives.lenient

    def finish(self) -> None:
        archive = self._keeper.archive
        assert archive is not None
        try:
            if archive.manifest.moving or archive.layout != self._layout:
                archive.migrate(self._layout)
            self._keeper.layout = self._layout
        except ArchiveError as problem:
            if not self._lenient:
                raise
            self._keeper.fail(problem.message)

    def give_up(self) -> None:
        """Runs the migration although something was raised: the statement has been accepted."""
        self.finish()


def layout_of(options: Options, longest_us: int | None = None) -> Layout:
    """The layout that the options of CREATE ARCHIVE say; the default for 'by cost', because nothing is measured yet.

    `longest_us`: the longest lifetime, if rows have lifetimes of their own.
    """
    from panewise.archive.layout import Layout

    given = dict(options)
    every = duration_us(str(given.get("every", DEFAULT_EVERY)))
    lifetime = duration_us(str(given["lifetime"])) if longest_us is None else max(longest_us, every)
    text = parse_layout(str(given.get("layout", DEFAULT_LAYOUT)))
    if text == "by cost":
        text = parse_layout(DEFAULT_LAYOUT)
    assert text is not None and not isinstance(text, str), "checked by the binder"
    style: Style = "no_rebuild" if given.get("update") == "no_rebuild" else "rebuild"
    parts = text.insertion_parts, text.expiration_parts
    return Layout(*parts, every, lifetime, text.order, style)


def opened(definition: ArchiveDefinition, layout: Layout) -> Archive:
    """Opens the archive in the folder, or creates one; ArchiveError if the one there has other columns."""
    from panewise.archive.archive import Archive
    from panewise.archive.manifest import Manifests
    from panewise.archive.storage import storage_at

    if not Manifests(storage_at(definition.path)).versions():
        return Archive.create(definition.path, definition.schema, key=definition.key, layout=layout)
    archive = Archive.open(definition.path)
    manifest = archive.manifest
    if manifest.schema != definition.schema or manifest.key != definition.key:
        raise ArchiveError(
            f"the archive in '{definition.path}' has other columns, or another key, than '{definition.source}'",
            hint=f"it has {manifest.schema} with the key {', '.join(manifest.key)}; name another path",
        )
    by_cost = parse_layout(str(dict(definition.options).get("layout", DEFAULT_LAYOUT))) == "by cost"
    if manifest.moving or not (by_cost or manifest.layout == layout):
        archive.migrate(manifest.layout if by_cost else layout)
    return archive


def last_cut(path: str) -> int | None:
    """How far the archive in a folder has come; None if there is none, or if it is empty."""
    from panewise.archive.manifest import Manifests
    from panewise.archive.storage import storage_at

    manifests = Manifests(storage_at(path))
    versions = manifests.versions()
    return manifests.load(versions[-1]).now_us if versions else None


def check_place(definition: ArchiveDefinition) -> None:
    """ArchiveError if the folder has no archive and may not become one. Nothing is written."""
    from panewise.archive.manifest import Manifests
    from panewise.archive.place import check_new_place
    from panewise.archive.storage import storage_at

    storage = storage_at(definition.path)
    if not Manifests(storage).versions():
        check_new_place(storage)


def _folder_of(path: str) -> str:
    local = path.removeprefix("file://")
    # Broken links are refused when the folder is opened.
    return path.rstrip("/") if "://" in local else os.path.realpath(local)

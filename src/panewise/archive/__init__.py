"""Archives: rows with lifetimes in Parquet files, indexed by key, insertion and expiration time.

`archive` commits updates and migrates, `snapshot` reads one version. `layout` says which sub-index a row belongs to,
`cost` chooses a layout. `manifest` describes a version; `description` and `verification` show and check one. `writing`
makes the files of the next version, `sub_index` and `key_directory` the files themselves; `update_rows` checks new
rows. `sought` has the conditions of reads. `retention` removes old versions, `writing_right` is the lock of the writer,
`place` checks the folder of a new archive, and `storage` has every file operation.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.archive.archive import Archive as Archive

__getattr__, __dir__ = face(__name__, {"Archive": "archive"})

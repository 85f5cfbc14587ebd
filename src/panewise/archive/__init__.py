"""Archives: rows with lifetimes in Parquet files, indexed by key, insertion and expiration time.

`archive` commits updates, `layout` says where a row belongs, `manifest` what a version is, `snapshot` asks one
version, `storage` has every file operation, `cost` chooses a layout.
"""

from typing import TYPE_CHECKING

from panewise.faces import face

if TYPE_CHECKING:
    from panewise.archive.archive import Archive as Archive

__getattr__, __dir__ = face(__name__, {"Archive": "archive"})

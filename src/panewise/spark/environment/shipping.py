"""Sends panewise itself to executors that do not have it.

The package is one zip archive that has every module twice: as source, which any Python reads, and compiled by this
Python, so that a worker of the same version compiles nothing when it starts. A shipped panewise comes before an
installed one on the executor's path, so executors run the driver's version. The dependencies (NumPy, Numba, Arrow,
pandas, protobuf) are not shipped and must be installed there.

The archive's bytes depend only on the sources and the version of Python, and its name has their digest. So an archive
is shipped once, and the next application finds the executors' caches of compiled loops again. Making it takes less than
a second, once a process.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import io
import marshal
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from panewise.spark.environment.session import is_connect

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from pyspark.sql import SparkSession

# The least date of a zip archive. It is constant, because dates of files must not change the archive.
_NO_DATE = (1980, 1, 1, 0, 0, 0)
# Flag of a compiled module: Python does not compare it with the source.
_UNCHECKED_HASH = 0b01


@cache
def package_zip() -> Path:
    """The archive of this panewise, in a temporary folder that is removed when the process ends."""
    # Imported by name: the package is above this layer, and is only shipped here.
    panewise = importlib.import_module("panewise")
    assert panewise.__spec__ is not None
    archive: str | None = getattr(panewise.__spec__.loader, "archive", None)
    if archive is not None:  # this panewise was shipped itself: its archive is passed on
        return Path(archive)
    content = _zipped(resources.files(panewise))
    folder = Path(tempfile.mkdtemp(prefix="panewise-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"panewise-{panewise.__version__}-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    path.write_bytes(content)
    return path


def ship(spark: SparkSession) -> Path | None:
    """Makes this panewise importable in a session's Python workers, classic or Spark Connect; returns the archive.

    With a local master nothing is sent, because workers import what this interpreter imports.
    """
    if not is_connect(spark) and str(spark.sparkContext.master).startswith("local"):
        return None
    path = package_zip()
    if is_connect(spark) or not _is_there(path):
        # Both kinds of session have this call.
        spark.addArtifacts(str(path), pyfile=True)
    return path


def _is_there(path: Path) -> bool:
    """Whether the application has the archive already. Adding it again would cause a warning."""
    from pyspark import SparkFiles

    return (Path(SparkFiles.getRootDirectory()) / path.name).exists()


def _zipped(package: Traversable) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in sorted(_files("panewise", package)):
            zipped.writestr(zipfile.ZipInfo(name, _NO_DATE), content, zipfile.ZIP_DEFLATED)
            if name.endswith(".py"):
                zipped.writestr(zipfile.ZipInfo(f"{name}c", _NO_DATE), _compiled(name, content), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _files(name: str, folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(f"{name}/{entry.name}", entry)
        elif not entry.name.endswith((".pyc", ".nbi", ".nbc")):
            yield f"{name}/{entry.name}", entry.read_bytes()


def _compiled(name: str, source: bytes) -> bytes:
    """The bytes of a .pyc file, which an interpreter with another magic number ignores."""
    code = compile(source, name, "exec", dont_inherit=True)
    digest = importlib.util.source_hash(source)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH.to_bytes(4, "little") + digest + marshal.dumps(code)

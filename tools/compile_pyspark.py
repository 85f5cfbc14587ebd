"""Compiles the Python modules that Spark's worker processes import: `python tools/compile_pyspark.py`.

Spark puts the archive `pyspark.zip` of its installation first on the path of every Python process that it starts. The
archive has sources alone, so each process compiles them anew, which takes several times as long as everything else that
it does until it answers. Here compiled modules are put beside the sources of the archive, and its tests left out.
"""

from __future__ import annotations

import compileall
import sys
import tempfile
import zipfile
from pathlib import Path
from py_compile import PycInvalidationMode

import pyspark


def main() -> int:
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    fresh = archive.with_suffix(".fresh")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(archive) as given:
            sources = [name for name in given.namelist() if "/tests/" not in name and not name.endswith(".pyc")]
            given.extractall(folder, sources)
        # Beside each source, and valid whatever time the archive gives the source.
        mode = PycInvalidationMode.UNCHECKED_HASH
        if not compileall.compile_dir(folder, quiet=1, legacy=True, invalidation_mode=mode):
            return 1
        with zipfile.ZipFile(fresh, "w") as made:
            for file in sorted(Path(folder).rglob("*")):
                made.write(file, file.relative_to(folder))
    fresh.replace(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())

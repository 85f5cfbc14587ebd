"""The input of the Spark benchmarks: the rows of the window benchmark as folders of Parquet files.

Files are the unit of a trigger and of a prefix, and several files are what two cores share. A folder is written once
and kept in the cache; it is complete when it exists, because it is written under another name and renamed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import floor
from bench.machine import CACHE

FIRST_DATE = 1_700_000_000


def folder(count: int, file_rows: int) -> Path:
    """A folder with `count` rows, 1 ms apart, in files of `file_rows`, in the order of their names and dates."""
    path = CACHE / f"spark_rows_{count}_{file_rows}"
    if path.is_dir():
        return path
    making = path.with_name(f"{path.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    times, keys, values = floor.rows(count)
    for number, begin in enumerate(range(0, count, file_rows)):
        part = slice(begin, begin + file_rows)
        rows = pa.table(
            {
                "ts": pa.array(times[part] * 1000).view(pa.timestamp("us", "UTC")),
                "k": pa.array(keys[part].astype(np.int64)),
                "v": pa.array(values[part]),
            }
        )
        file = making / f"part-{number:05}.parquet"
        pq.write_table(rows, file)
        # Spark takes files in the order of their dates, which must not be equal.
        os.utime(file, (FIRST_DATE + number, FIRST_DATE + number))
    making.rename(path)
    return path


def prefix(whole: Path, files: int, target: Path) -> Path:
    """A folder of links to the first files of another, for a system that is given fewer rows."""
    target.mkdir(parents=True)
    for path in sorted(whole.glob("*.parquet"))[:files]:
        (target / path.name).hardlink_to(path)
    return target

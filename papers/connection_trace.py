"""The recorded connections of a network that several papers' figures are run on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from panewise.arrays import Ints
from panewise.errors import PanewiseError

if TYPE_CHECKING:
    import pyarrow as pa

TRACE = "zeek_conn_20240419_20240421.tsv.zst"


def trace_path(folder: Path | None) -> Path:
    # The recorded streams lie beside a source tree, where they are not given.
    folder = folder or Path(__file__).parents[2] / "shared" / "data"
    path = folder / TRACE
    if not path.is_file():
        raise PanewiseError(f"there is no connection trace {path}", hint="--data names the folder that holds it")
    return path


def connections(path: Path, columns: list[str]) -> pa.Table:
    """Some columns of all connections, in the order of their starts."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    with pa.input_stream(str(path), compression="zstd") as stream:
        table = csv.read_csv(
            stream,
            parse_options=csv.ParseOptions(delimiter="\t"),
            convert_options=csv.ConvertOptions(include_columns=["ts", *columns], column_types={"ts": pa.float64()}),
        )
    return table.take(pc.sort_indices(table, sort_keys=[("ts", "ascending")]))


def source_numbers(table: pa.Table) -> Ints:
    """The source addresses of connections, as small numbers."""
    codes = table.column("id.orig_h").combine_chunks().dictionary_encode().indices
    return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)

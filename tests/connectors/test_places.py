"""A sink's place is neither a source's nor another sink's."""

from __future__ import annotations

from pathlib import Path

import pytest

from panewise.catalog import Catalog
from panewise.connectors.places import check_places
from panewise.connectors.tables import no_rows
from panewise.engine.engine import Engine
from panewise.errors import ConnectorError


def catalog_of(source: Path | str, *sinks: Path | str, kind: str = "STREAM") -> Catalog:
    engine = Engine()
    engine.driver.expect()
    engine.statements.read_tables_by(no_rows)
    own = "NON RETROACTIVE " if kind == "TABLE" else ""
    engine.execute(f"CREATE {kind} s (ts TIMESTAMP, v BIGINT) {own}WITH (connector = 'csv', path = '{source}')")
    engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT)")
    engine.execute("CREATE QUERY q AS SELECT v FROM t [RANGE 1 MINUTE]")
    for number, sink in enumerate(sinks):
        engine.execute(f"CREATE SINK k{number} FROM q WITH (connector = 'json', path = '{sink}')")
    return engine.catalog


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.csv").write_text("ts,v\n")
    (tmp_path / "elsewhere.csv").write_text("ts,v\n")
    (folder / "linked.csv").symlink_to(tmp_path / "elsewhere.csv")
    (tmp_path / "hard.csv").hardlink_to(folder / "a.csv")
    (tmp_path / "link").symlink_to(folder)
    return folder


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
@pytest.mark.parametrize(
    ("source", "sink", "how"),
    [
        ("data/a.csv", "data/a.csv", "is"),
        ("data/a.csv", "data/deep/../a.csv", "is"),
        ("link/a.csv", "data/a.csv", "is"),
        ("data/a.csv", "link/a.csv", "is"),
        ("data/a.csv", "hard.csv", "is a file of"),
        ("data", "elsewhere.csv", "is a file of"),
        ("data", "hard.csv", "is a file of"),
        ("data", "data", "is"),
        ("data", "link", "is"),
        ("data", "data/new.json", "lies in"),
        ("data", "data/new/parts", "lies in"),
        ("link", "data/new/parts", "lies in"),
        ("data/a.csv", "data", "is a folder around"),
        ("data/deep", "data", "is a folder around"),
        ("data/*.csv", "data/a.csv", "would be read by"),
        ("data/*.csv", "elsewhere.csv", "is a file of"),
        ("data/*.csv", "data/new.csv", "would be read by"),
        ("link/*.csv", "data/new.csv", "would be read by"),
        ("data/*/*.parquet", "data/new", "would be read by"),
        ("data/**/*.csv", "data/new/deeper/x.csv", "would be read by"),
        ("data/*.csv", "data", "is a folder around"),
    ],
)
def test_a_sink_does_not_write_into_the_input(
    tmp_path: Path, data: Path, source: str, sink: str, how: str, kind: str
) -> None:
    found = catalog_of(tmp_path / source, tmp_path / sink, kind=kind)
    with pytest.raises(ConnectorError) as refused:
        check_places(found)
    assert refused.value.message == (
        f"sink 'k0' would write into the input of {kind.lower()} 's': its path '{tmp_path / sink}' {how} "
        f"'{tmp_path / source}'"
    )
    with pytest.raises(ConnectorError):
        check_places(catalog_of(f"file://{tmp_path / source}", tmp_path / sink, kind=kind))


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("data/a.csv", "data/a.csv.json"),
        ("data/a.csv", "data/new"),
        ("data", "data2"),
        ("data/deep", "data/new.json"),
        ("data/*.csv", "data/new.json"),
        ("data/*.csv", "data/deep/new.csv"),
        ("missing", "data"),
    ],
)
def test_places_beside_are_free(tmp_path: Path, data: Path, source: str, sink: str) -> None:
    check_places(catalog_of(tmp_path / source, tmp_path / sink))
    check_places(catalog_of("s3://bucket/data", "s3://bucket/data"))


def test_relative_paths_are_those_of_the_process(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    with pytest.raises(ConnectorError, match=r"its path 'a\.csv' is"):
        check_places(catalog_of(data / "a.csv", "a.csv"))


def test_sinks_have_places_of_their_own(tmp_path: Path, data: Path) -> None:
    with pytest.raises(ConnectorError, match="the sinks 'k0' and 'k1' write to one place"):
        check_places(catalog_of(tmp_path / "elsewhere.csv", data / "out.json", tmp_path / "link" / "out.json"))
    check_places(catalog_of(tmp_path / "elsewhere.csv", "/dev/null", "/dev/null"))

"""`panewise serve` from the command line: a file of statements, tokens, and what is refused at the start."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx

from tests.serve.http.serving import BUSY, READ, WRITE, all_results, process, refusal
from tests.waiting import PATIENCE_S, until


def test_a_file_of_statements_is_run_once(tmp_path: Path):
    """Its source is read and its sink written; starting again does neither twice, and refuses another definition."""
    (tmp_path / "t.csv").write_text("ts,k,v\n" + "".join(f"1970-01-01 00:00:0{s},a,{s}\n" for s in range(9)))
    file = tmp_path / "shop.cql"
    text = f"""
        CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT) WITH (connector = 'csv', path = '{tmp_path}/t.csv');
        CREATE TABLE names (k STRING PRIMARY KEY, name STRING);
        INSERT INTO names VALUES ('a', 'Anna');
        CREATE QUERY busy AS {BUSY};
        CREATE SINK out FROM busy WITH (connector = 'json', path = '{tmp_path}/out');
    """
    file.write_text(text)
    for _ in range(2):
        with process(str(file), "--path", str(tmp_path / "data")) as server:
            assert [row[3] for row in all_results(server.client, "busy", 8)] == [0, 1, 3, 5, 7, 9, 11, 13]
            stats = server.client.get("/v1/stats").json()
            assert stats["streams"]["t"]["rows"] == 9
            assert stats["tables"]["names"]["rows"] == 1
            assert server.end() == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 8
    file.write_text(text.replace("SUM(v)", "MAX(v)"))
    assert "the folder has other definitions of query busy" in refusal(str(file), "--path", str(tmp_path / "data"))


def test_sinks_get_every_row_however_few_are_held(tmp_path: Path):
    """One batch of the source makes more results than the server holds."""
    rows = "".join(f"1970-01-01 00:{s // 60:02}:{s % 60:02},a,1\n" for s in range(300))
    (tmp_path / "t.csv").write_text("ts,k,v\n" + rows)
    (tmp_path / "shop.cql").write_text(f"""
        CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT) WITH (connector = 'csv', path = '{tmp_path}/t.csv');
        CREATE QUERY busy AS {BUSY};
        CREATE SINK out FROM busy WITH (connector = 'json', path = '{tmp_path}/out');
    """)
    with process(str(tmp_path / "shop.cql"), "--path", str(tmp_path / "data"), "--keep-rows", "20") as server:
        until(lambda: server.client.get("/v1/stats").json()["streams"]["t"]["rows"] == 300)
        assert server.end() == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 299


def test_a_bad_row_of_a_source_ends_that_source_alone_until_its_stream_is_altered(tmp_path: Path):
    (tmp_path / "bad.csv").write_text("ts,k,v\n9999-12-31 00:00:00,a,1\n1970-01-01 00:00:00,a,1\n")
    (tmp_path / "good.csv").write_text("ts,k,v\n" + "1970-01-01 00:00:00,a,1\n" * 70_000)
    (tmp_path / "shop.cql").write_text(f"""
        CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT) WITH (connector = 'csv', path = '{tmp_path}/bad.csv');
        CREATE STREAM u (ts TIMESTAMP, k STRING, v BIGINT) WITH (connector = 'csv', path = '{tmp_path}/good.csv');
        CREATE QUERY busy AS {BUSY};
    """)
    with process(str(tmp_path / "shop.cql")) as server:
        client = server.client

        def rows() -> dict[str, int]:
            return {name: stream["rows"] for name, stream in client.get("/v1/stats").json()["streams"].items()}

        until(lambda: client.get("/readyz").status_code == 503)
        assert "a source is no longer read" in client.get("/readyz").text
        until(lambda: rows() == {"t": 0, "u": 70_000})
        client.post("/v1/statements", json={"text": "ALTER STREAM t SET (on_bad_row = 'skip')"}).raise_for_status()
        until(lambda: client.get("/readyz").status_code == 200)
        until(lambda: rows()["t"] == 2)  # the bad one counts as one that came
        assert server.end() == 1


def test_sources_do_not_stand_in_for_each_other(tmp_path: Path):
    """What no reader knows ends one source alone; a file of another that is gone, a mended file and a kill do not."""
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "1.csv").write_text("ts,k,v\n1970-01-01 00:00:00,a,1\n")
    (folder / "2.csv").write_text("ts,k,v\n1970-01-01 00:00:01,a,many\n")
    (tmp_path / "u.csv").write_text("ts,k,v\n1970-01-01 00:00:00,a,1\n")
    (tmp_path / "w.json").write_text('{"ts": "1970-01-01 00:00:00", "k": "\\ud800", "v": 1}\n')
    columns = "(ts TIMESTAMP, k STRING, v BIGINT) WITH (connector ="
    (tmp_path / "shop.cql").write_text(f"""
        CREATE STREAM t {columns} 'csv', path = '{folder}');
        CREATE STREAM u {columns} 'csv', path = '{tmp_path}/u.csv');
        CREATE STREAM w {columns} 'json', path = '{tmp_path}/w.json');
        CREATE QUERY busy AS {BUSY};
    """)
    start = (str(tmp_path / "shop.cql"), "--path", str(tmp_path / "data"))

    def rows(client: httpx.Client) -> dict[str, int]:
        return {name: stream["rows"] for name, stream in client.get("/v1/stats").json()["streams"].items()}

    with process(*start) as server:
        until(lambda: rows(server.client) == {"t": 1, "u": 1, "w": 0})
        until(lambda: server.client.get("/readyz").status_code == 503)
        server.process.kill()
    (folder / "2.csv").write_text("ts,k,v\n1970-01-01 00:00:01,a,2\n")  # nothing was taken from it
    with process(*start) as server:
        until(lambda: rows(server.client) == {"t": 2, "u": 1, "w": 0})
        (tmp_path / "u.csv").unlink()
        (tmp_path / "w.json").write_text('{"ts": "1970-01-01 00:00:00", "k": "a", "v": 1}\n')
        server.client.post("/v1/statements", json={"text": "ALTER STREAM w SET (late = 'drop')"}).raise_for_status()
        until(lambda: rows(server.client) == {"t": 2, "u": 1, "w": 1})
        assert server.client.get("/readyz").status_code == 200


def test_tokens_come_from_a_file_and_the_environment(tmp_path: Path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"# who may\nread {READ} press\n")
    with process(
        "--token-file", str(tokens), "--log", "json", environment={"PANEWISE_TOKENS": f"write {WRITE}"}
    ) as server:
        client = server.client
        assert client.get("/v1/catalog").status_code == 401
        assert client.get("/v1/catalog", headers={"Authorization": f"Bearer {READ}"}).status_code == 200
        text = {"text": "CREATE STREAM t (ts TIMESTAMP)"}
        assert client.post("/v1/statements", json=text, headers={"Authorization": f"Bearer {WRITE}"}).status_code == 200
        server.process.send_signal(signal.SIGTERM)
        log = server.process.communicate(timeout=PATIENCE_S)[1]
    assert '"token":"press"' in log
    assert READ not in log
    assert WRITE not in log


def test_what_is_refused_at_the_start(tmp_path: Path):
    assert "without tokens everybody" in refusal("--host", "0.0.0.0")
    (tmp_path / "wrong.cql").write_text("CREATE NONSENSE")
    assert "line 1" in refusal(str(tmp_path / "wrong.cql"))
    path = str(tmp_path / "data")
    with process("--path", path) as server:
        assert "cannot listen" in refusal("--port", str(server.client.base_url.port))
        assert "is open in another engine" in refusal("--path", path)

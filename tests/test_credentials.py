"""Credentials in paths and options: masked wherever they are shown, kept where they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

import panewise as pw
from panewise.credentials import masked, masked_line, masked_option
from panewise.engine.books.definitions import shown_statement_of, statement_of
from panewise.engine.statements import engine_definer
from panewise.errors import ArchiveError, PanewiseError
from tests.serve.http.serving import served

SECRET = "wJalrXUtnFEMI"
URI = f"s3://AKIAEXAMPLE:{SECRET}@bucket/sold?region=eu-north-1&session_token={SECRET}"
SHOWN = "s3://***@bucket/sold?region=eu-north-1&session_token=***"
STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT);"
ARCHIVE = f"CREATE ARCHIVE kept FROM t WITH (path = '{URI}', lifetime = '1 hour', key = 'k');"
SINK = f"""CREATE QUERY q AS SELECT k, v FROM t [NOW];
           CREATE SINK out FROM q WITH (connector = 'json', path = '{URI}');"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (URI, SHOWN),
        (f"'{URI}' and '{URI}'", f"'{SHOWN}' and '{SHOWN}'"),
        ("s3://key:with/slash+and=@bucket/x", "s3://***@bucket/x"),
        ("s3://key:a@b@bucket/x", "s3://***@bucket/x"),
        ("jdbc:postgresql://me:pw@host:5432/db?user=me&password=pw;x=1", "jdbc:postgresql://***@host:5432/db?user=me&password=***;x=1"),
        ("abfs://c@account.dfs/x?account_key=k&sig=s", "abfs://***@account.dfs/x?account_key=***&sig=***"),
        ("https://h/x?X-Amz-Signature=s&X-Amz-Credential=c#part", "https://h/x?X-Amz-Signature=***&X-Amz-Credential=***#part"),
        ("https://h/x?apiKey=1&key=2&monkey=3", "https://h/x?apiKey=***&key=***&monkey=3"),
        # Nothing of these is a secret.
        ("s3://bucket/mail@home/x:y", "s3://bucket/mail@home/x:y"),
        ("http://127.0.0.1:8461/a@b?at=now", "http://127.0.0.1:8461/a@b?at=now"),
        ("write key=ALFA, or mail me@example.org", "write key=ALFA, or mail me@example.org"),
        ("/home/me/data", "/home/me/data"),
    ],
)  # fmt: skip
def test_what_of_a_text_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(shown) == shown


def test_what_of_an_option_is_masked() -> None:
    jaas = 'sasl.jaas.config=x required username="me" password="hunter2"; acks=all'
    assert "hunter2" not in str(masked_option("properties", jaas)) and "acks=all" in str(
        masked_option("properties", jaas)
    )
    assert masked_option("key", "k, item") == "k, item"
    assert masked_option("access_key", "AKIA") == "***"
    assert masked_option("password_env", "SALES_PASSWORD") == "SALES_PASSWORD"


def test_errors_are_masked_and_keep_their_class() -> None:
    error = PanewiseError(f"no archive in '{URI}'", hint=f"look at {URI}")
    assert SECRET not in str(error) + error.message + str(error.hint) + repr(error) and SHOWN in str(error)
    with pytest.raises(ArchiveError) as refused:
        pw.Engine().execute(STREAM + ARCHIVE.replace("&session", "&no_such_parameter=1&session"))
    assert SECRET not in str(refused.value) and "s3://***@bucket" in str(refused.value)


@pytest.mark.parametrize("option", [f"late = '{URI}'", f"password='{SECRET}'", f"path = '{URI}', late = 5"])
def test_the_line_that_an_error_underlines_is_masked_in_place(option: str) -> None:
    with pytest.raises(pw.BindError) as refused:
        pw.Engine().execute(f"CREATE STREAM t (ts TIMESTAMP)\n  WITH ({option})")
    shown = str(refused.value)
    assert SECRET not in shown and "***" in shown
    line, carets = shown.splitlines()[1:3]
    assert len(line) == len(f" 2 |   WITH ({option})") and carets.index("^") == 4 + (refused.value.column or 0)


@pytest.mark.parametrize(
    "part", ["9", "a", "a.", "?", "?a", "&", "/", "@", ":", "password", "password=", "a=", " ", '"', "://"]
)
def test_a_long_text_costs_no_more_than_its_length(part: str) -> None:
    """With a pattern that goes back for every character this would take hours."""
    text = part * (200_000 // len(part))
    for around in (text, f"s3://{text}", f"s3://a?{text}", f"p = '{text}"):
        assert masked(around) and masked_option("path", around) and masked_line(around)


def test_what_is_shown_and_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(path=tmp_path / "data") as (client, backend):
        engine = backend.engine
        engine.archives.keep_only_books()  # no object store is asked for anything
        monkeypatch.setattr(engine_definer, "last_cut", lambda _: None)
        engine.execute(STREAM + ARCHIVE + SINK)
        archives = engine.execute("SHOW ARCHIVES").to_pylist()
        assert [row["path"] for row in archives] == [SHOWN]
        assert SHOWN in engine.execute("SHOW SINKS").to_pylist()[0]["options"]
        assert engine.stats()["archives"]["kept"]["path"] == SHOWN
        answers = [client.get(path).text for path in ("/v1/catalog", "/v1/stats", "/v1/explain", "/metrics")]
        answers += [
            client.post("/v1/statements", json={"text": text}).text
            for text in ("SHOW ARCHIVES", "SHOW SINKS", "SHOW STREAMS", "SHOW QUERIES", "EXPLAIN QUERY q")
        ]
        again = client.post("/v1/statements", json={"text": ARCHIVE.replace("kept", "other")})
        assert again.status_code == 400 or again.status_code == 409
        assert not [answer for answer in [*answers, again.text] if SECRET in answer]
        for name in ("kept", "out"):
            definition = engine.catalog.get(name)
            assert dict(definition.options)["path"] == URI and SECRET in statement_of(definition)
            assert SECRET not in shown_statement_of(definition)
    log = b"".join(file.read_bytes() for file in (tmp_path / "data" / "engine").iterdir() if file.is_file())
    assert SECRET.encode() in log

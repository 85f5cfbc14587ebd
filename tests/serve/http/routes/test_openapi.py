"""What the OpenAPI document allows is sent, thousands of times: nothing may answer 5xx or otherwise than it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serve.http.serving import BUSY, NDJSON, TOKENS, WRITE, define, ipc, rows, served

CASES = 18  # of each operation: as many that the document allows, and as many that it does not
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

STATEMENTS = [
    "SHOW QUERIES; ",
    "SHOW STREAMS -- ",
    "EXPLAIN PLAN; ",
    "SELECT k, COUNT(*) AS n FROM t [NOW] GROUP BY k -- ",
    "CREATE QUERY z AS SELECT COUNT(*) AS n FROM t [RANGE 1 MINUTE SLIDE 1 MINUTE] -- ",
    "DROP QUERY z -- ",
    'CREATE STREAM "',
    "SELECT '",
    "ALTER STREAM t SET (late = 'keep') -- ",
    "CREATE TABLE y (a BIGINT); DROP TABLE y; ",
]

# Bodies that are not JSON: rows of the stream, rows of none, and no rows at all.
ROWS = st.lists(st.builds(lambda s, k, v: rows((s, "ab"[k], v)), st.integers(0, 99), st.integers(0, 1), st.integers()))
NDJSON_BODIES = st.one_of(ROWS.map("".join), st.text()).map(lambda text: text.encode("utf-8", "replace"))
ARROW_BODIES = st.one_of(
    st.lists(st.integers(0, 99), max_size=5).map(
        lambda seconds: ipc(
            pa.table(
                {
                    "ts": pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us", tz="UTC")),
                    "k": pa.array(["a"] * len(seconds), pa.string()),
                    "v": pa.array(seconds, pa.int64()),
                }
            )
        )
    ),
    st.binary(),
)
schemathesis.openapi.media_type("application/x-ndjson", NDJSON_BODIES)
schemathesis.openapi.media_type("application/vnd.apache.arrow.stream", ARROW_BODIES)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with served(tokens=TOKENS, requests_per_second=0) as (client, _):
        define(client, f"CREATE QUERY busy AS {BUSY}")
        client.post("/v1/streams/t/rows", content=rows((1, "a", 1), (3, "b", 2)), headers=NDJSON)
        yield client


def test_everything_that_the_document_allows(client):
    document = client.get("/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    schema.config.base_url = str(client.base_url)
    statuses: dict[str, Counter[int]] = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith("/live") or operation.path.startswith("/dashboard"):
            continue  # a stream that does not end; files
        counted = statuses.setdefault(f"{operation.method.upper()} {operation.path}", Counter())
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            client.post("/v1/queries", json={"name": "busy", "select": BUSY})  # where a case before has dropped it
            try:
                _send_cases(operation, mode, counted)
            except Unsatisfiable:  # nothing in it can be wrong
                assert mode == GenerationMode.NEGATIVE
    assert sum(map(Counter.total, statuses.values())) > 500
    # The cases reach the handlers: each operation is answered otherwise than "no token".
    assert not [name for name, counted in statuses.items() if set(counted) <= {401, 403, 429}], statuses
    assert {status for counted in statuses.values() for status in counted} >= {200, 400, 404}
    assert client.get("/readyz").status_code == 200


def _send_cases(operation, mode: GenerationMode, counted: Counter[int]) -> None:
    @settings(
        max_examples=CASES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case) -> None:
        for name in ("name", "producer"):
            # Half of the cases go to what exists.
            if name in (case.path_parameters or {}) and len(str(case.path_parameters[name])) % 2:
                case.path_parameters[name] = "t" if "/streams/" in operation.path else "busy"
        if isinstance(case.body, dict) and isinstance(case.body.get("text"), str) and len(case.body["text"]) % 2:
            case.body["text"] = STATEMENTS[len(case.body["text"]) // 2 % len(STATEMENTS)] + case.body["text"]
        answer = case.call(headers={"Authorization": f"Bearer {WRITE}"})
        counted[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)

    send()


def test_the_document_says_what_it_should(client):
    document = client.get("/v1/openapi.json").json()
    assert document["info"]["title"] == "panewise"
    tags = {tag["name"] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], path
            assert set(operation["tags"]) <= tags, path
            if not path.startswith("/dashboard") and path != "/":
                assert {"400", "401", "429"} <= set(operation["responses"]), (method, path)
                assert "422" not in operation["responses"]

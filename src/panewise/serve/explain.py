"""`panewise explain`: the plans of a file's queries, without reading any source."""

from __future__ import annotations

import json
from pathlib import Path

from panewise.runtime.engine import Engine
from panewise.serve.statement_texts import read_statements


def explain_file(file: Path, *, query: str | None, as_json: bool) -> str:
    engine = Engine()
    engine.execute(read_statements(file))
    explanation = engine.explain(query) if query is not None else engine.explain()
    return json.dumps(explanation.to_dict(), indent=2, default=str) if as_json else str(explanation)

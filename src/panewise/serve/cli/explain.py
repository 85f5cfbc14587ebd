"""`panewise explain`: the plans of a file's queries and what they share; no source is read."""

from __future__ import annotations

import json
from pathlib import Path

from panewise.engine.engine import Engine
from panewise.errors import PanewiseError
from panewise.serve.cli.statement_texts import read_statements
from panewise.serve.drawing.weave_graph import dot, headline, svg

DRAWINGS = {".svg": svg, ".dot": dot, ".gv": dot}
TO_THE_SCREEN = "-"


def explain_file(file: Path, *, query: str | None, as_json: bool) -> str:
    engine = _registered(file)
    explanation = engine.explain(query) if query is not None else engine.explain()
    return json.dumps(explanation.to_dict(), indent=2, default=str) if as_json else str(explanation)


def graph_file(file: Path, out: str, *, query: str | None, as_json: bool) -> str:
    """Draws what the queries of a file share, in the format of the output's suffix; returns the text to print.

    The output `-` prints Graphviz text, for a pipe: `... --graph - | dot -Tpdf -o weave.pdf`.
    """
    if query is not None or as_json:
        other = "--query" if query is not None else "--json"
        raise PanewiseError(f"--graph and {other} do not go together", hint="--graph draws all queries of the file")
    draw = dot if out == TO_THE_SCREEN else DRAWINGS.get(Path(out).suffix.lower())
    if draw is None:
        raise PanewiseError(
            f"'{out}' does not name a format to draw: its suffix is {_suffix(out)}",
            hint="end it with .svg for a picture or .dot for Graphviz, or write - for Graphviz text on the screen",
        )
    report = _registered(file).sharing_report()
    drawing = draw(report)
    if out == TO_THE_SCREEN:
        return drawing
    try:
        Path(out).write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise PanewiseError(f"'{out}' cannot be written: {error.strerror}") from None
    return f"{headline(report)[0]}, drawn in {out}\n"


def _suffix(out: str) -> str:
    return f"'{Path(out).suffix}'" if Path(out).suffix else "missing"


def _registered(file: Path) -> Engine:
    engine = Engine()
    engine.driver.expect()  # it is only explained
    engine.archives.keep_only_books()
    engine.execute(read_statements(file))
    return engine

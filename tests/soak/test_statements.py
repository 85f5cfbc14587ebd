"""The generator of statements: a few scripts of it, and that it leaves out nothing that the language has."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from sqlglot import exp

from panewise.aggregates import builtin as registry
from panewise.engine.engine import Engine
from panewise.language.bind.bind_expressions import SCALAR_NAMES, ExpressionBinder
from panewise.language.bind.binder import parse
from panewise.language.parse import syntax as nodes
from panewise.language.parse.dialect import ParsedStatement
from panewise.language.parse.parse_select import EMIT_WORDS
from tests.now_or_soak import soaking
from tests.soak.expression_grammar import aggregate_signatures, scalar_signatures
from tests.soak.statement_grammar import Grammar
from tests.soak.statements import BASE, play

SEEDS, TOGETHER = 30, 5
GENERATED = 3_000
SELECT_CLAUSES = ("emit", "restore", "distinct", "joins", "where", "group", "having")
WINDOW_KINDS = ("range", "rows", "now", "unbounded")


@pytest.mark.parametrize("first", soaking(range(0, SEEDS, TOGETHER), now=[0, 5, 10]))
def test_statements_work_or_are_refused(first: int) -> None:
    assert sum(map(play, range(first, first + TOGETHER))) >= 100 * TOGETHER


@pytest.fixture(scope="module")
def generated() -> list[ParsedStatement]:
    engine = Engine()
    engine.execute(BASE)
    engine.execute("CREATE SINK out FROM base WITH (connector = 'console')")
    grammar = Grammar(random.Random(18), engine.catalog, "folder")
    found = []
    for _ in range(GENERATED):
        try:
            found += parse(grammar.statement())
        except Exception:  # noqa: BLE001 - some are wrong on purpose
            continue
    return found


def test_every_node_and_argument_of_the_language_is_made(generated: list[ParsedStatement]) -> None:
    made: dict[type, set[str]] = {}
    for statement in generated:
        for node in statement.node.walk():
            given = {key for key, value in node.args.items() if value is not None and value is not False}
            made.setdefault(type(node), set()).update(given)
    ours = [c for c in vars(nodes).values() if isinstance(c, type) and issubclass(c, exp.Expression)]
    for kind in ours:
        assert kind in made, kind
        wanted = SELECT_CLAUSES if kind is nodes.StreamSelect else kind.arg_types
        assert set(wanted) <= made[kind], (kind, set(wanted) - made[kind])
    for kind in (*ExpressionBinder._HANDLERS, exp.Union, exp.Except, exp.Intersect, exp.Exists, exp.Subquery):
        assert kind in made, kind
    assert {"side", "kind", "on", "using"} <= made[exp.Join]


def test_every_function_can_be_called_and_almost_all_are(generated: list[ParsedStatement]) -> None:
    known = {*SCALAR_NAMES, *registry.names()}
    signatures = [s for table in (scalar_signatures(), aggregate_signatures()) for of in table.values() for s in of]
    assert known <= {signature.name.upper() for signature in signatures}
    called = {call.this for s in generated for call in s.node.find_all(exp.Anonymous)}
    assert len(known - called) < 5, known - called


def test_every_pair_of_clauses_is_made(generated: list[ParsedStatement]) -> None:
    selects = [select for s in generated for select in s.node.find_all(nodes.StreamSelect)]
    emits = {select.args.get("emit") for select in selects}
    assert emits == {None, *EMIT_WORDS}
    made = {pair for select in selects for pair in combinations(clauses_of(select), 2)}
    wanted = set(combinations(("nested", "exists", *SELECT_CLAUSES), 2))
    assert wanted <= made, wanted - made
    windows = [window for s in generated for window in s.node.find_all(nodes.StreamWindow)]
    found = {pair for window in windows for pair in combinations(sorted(window.args), 2)}
    pairs = set(combinations(sorted(nodes.StreamWindow.arg_types), 2)) - set(combinations(WINDOW_KINDS, 2))
    pairs = {pair for pair in pairs if len(set(pair) & set(WINDOW_KINDS)) < 2}
    # A PARTITION BY without ROWS is refused by the binder, one with ALIGN too.
    impossible = {pair for pair in pairs if "partition" in pair and set(pair) & {"range", "now", "unbounded", "align"}}
    assert pairs - impossible <= found, pairs - impossible - found


def clauses_of(select: nodes.StreamSelect) -> list[str]:
    found = ["nested"] if isinstance(select.args["from_"].this.this, exp.Query) else []
    where = select.args.get("where")
    found += ["exists"] if where is not None and where.find(exp.Exists) else []
    return [*found, *(clause for clause in SELECT_CLAUSES if select.args.get(clause))]

"""Statements of callers: each begins in a turn, and a SELECT that reads for long ends outside it.

short statement    bound, run and finished in one turn
long text          bound before the turn, to a copy of the definitions; bound again if these have changed meanwhile
long SELECT        begun in a turn, where what it reads is pinned; finished outside, while others go on
"""

from __future__ import annotations

from threading import get_ident

import pyarrow as pa

from panewise.catalog import Catalog, Definition
from panewise.engine.books.books import Books
from panewise.engine.calls.checkpoints import Checkpoints
from panewise.engine.calls.flusher import Flusher
from panewise.engine.reads.published_answers import PublishedAnswers
from panewise.engine.reads.read_isolation import SourceGone
from panewise.engine.statements.listeners import Listeners
from panewise.engine.statements.statement_runner import StatementRunner, Unfinished, located
from panewise.language import statements as s
from panewise.language.bind.binder import ParsedStatement, bind_one, parse

LONG_TEXT = 1_000  # Statements with more characters are bound outside all turns.


class StatementCalls:
    """Runs the statements of one engine's callers."""

    def __init__(
        self,
        books: Books,
        statements: StatementRunner,
        flusher: Flusher,
        answers: PublishedAnswers,
        listeners: Listeners,
        checkpoints: Checkpoints,
    ) -> None:
        self._books = books
        self._turns = books.turns
        self._statements = statements
        self._flusher = flusher
        self._answers = answers
        self._listeners = listeners
        self._checkpoints = checkpoints

    def run_text(self, text: str) -> pa.Table | None:
        """Runs the statements of a text in one turn, or its only statement by `run`."""
        statements = parse(text)
        if len(statements) == 1:
            return self.run(statements[0])
        with self._turns:
            result = None
            for parsed in statements:
                table = self.run(parsed)
                result = table if table is not None else result
            return result

    def run(self, parsed: ParsedStatement, bound: s.Statement | None = None) -> pa.Table | None:
        """Runs a statement. `bound`: the same, if the caller has bound it, and nothing is defined meanwhile."""
        while True:
            ahead, result = None if bound is not None else self._bound_ahead(parsed), None
            try:
                with self._turns:
                    result = self._begin(parsed, ahead, bound)
                    self._listeners.note()
                    self._checkpoints.changed()
            except BaseException:  # also of subscribers, who are called when the turn has ended
                if isinstance(result, Unfinished):
                    result.give_up()
                raise
            if not isinstance(result, Unfinished):
                return result
            try:
                with located(parsed):
                    return result.finish()
            except SourceGone:
                continue

    def _bound_ahead(self, parsed: ParsedStatement) -> tuple[s.Statement, dict[str, Definition]] | None:
        """A long statement, bound outside all turns, and the definitions that it was bound to."""
        self._turns.check()
        if len(parsed.text) < LONG_TEXT or self._turns.owner == get_ident():
            return None
        definitions = self._books.catalog.copy()
        seen = Catalog()
        seen.restore(definitions)
        return bind_one(parsed, seen, self._books.find_aggregate, self._books.aggregate_names), definitions

    def _begin(
        self,
        parsed: ParsedStatement,
        ahead: tuple[s.Statement, dict[str, Definition]] | None,
        bound: s.Statement | None,
    ) -> pa.Table | Unfinished | None:
        """Inside a turn: the result of a statement, or what is to be finished outside."""
        self._flusher.flush_all()
        if bound is None and ahead is not None and self._books.catalog.is_as(ahead[1]):
            bound = ahead[0]
        statement = self._statements.bound(parsed) if bound is None else bound
        if not isinstance(statement, s.Show | s.Explain | s.SelectOnce):
            self._answers.change()
            if not isinstance(statement, s.Insert | s.Update | s.Delete):
                self._answers.forget()
        with located(parsed):
            return self._statements.execute(statement)

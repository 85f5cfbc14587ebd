"""`panewise shell`: runs statements that end with a semicolon, prints tables, and has some backslash commands.

The same `Shell` serves a terminal (history, completion, several lines) and a pipe (line by line, no prompt).
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from panewise import __version__
from panewise.catalog import QueryDefinition, SinkDefinition, StreamDefinition
from panewise.connectors.by_name import open_source
from panewise.connectors.options import written_option
from panewise.engine.engine import Engine
from panewise.engine.run.driver import RunOptions
from panewise.engine.run.flows import Flow
from panewise.engine.run.held_interrupts import interrupts_held
from panewise.engine.run.terminal_tables import error_console, error_text, output_console, result_table
from panewise.errors import BadRowsWarning, ConnectorError, LateRowsWarning, PanewiseError, did_you_mean
from panewise.serve.cli.run import row_remarks
from panewise.serve.cli.statement_texts import is_complete, read_statements, split_statements

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

ROWS_SHOWN = 20
_WORDS = ("exit", "quit", "help")
_OTHER_NAMES = {
    "\\q": "\\quit",
    "\\exit": "\\quit",
    "\\quit": "\\quit",
    "\\h": "\\help",
    "\\?": "\\help",
    "\\help": "\\help",
}
_FORMATS = {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


@dataclass(frozen=True)
class Command:
    """A backslash command. `arguments` is the range of allowed numbers of arguments."""

    usage: str
    help: str
    arguments: range
    run: Callable[[list[str]], None]


def is_command(text: str) -> bool:
    r"""Whether the input is a command: it begins with a backslash, or is `exit`, `quit` or `help`.

    >>> is_command(" exit "), is_command("quit;"), is_command("exit_code"), is_command("\\stats")
    (True, True, False, True)
    """
    return text.lstrip().startswith("\\") or text.strip().rstrip(";").lower() in _WORDS


class Shell:
    """Takes complete inputs (statements or one command) and prints their answers."""

    def __init__(self, engine: Engine, console: Console, errors: Console) -> None:
        self.engine = engine
        self.engine.driver.expect()  # `\read` is a run
        self.console = console
        self.errors = errors
        self.failed = False
        self.ended = False
        self.commands = {
            "\\help": Command("\\help", "this list", range(1), self._help),
            "\\push": Command(
                "\\push STREAM FILE", "push the rows of a csv, json or parquet file", range(2, 3), self._push
            ),
            "\\read": Command(
                "\\read", "read new rows of streams with a connector, and feed the sinks", range(1), self._read
            ),
            "\\flush": Command("\\flush", "close all windows that hold rows", range(1), self._flush),
            "\\results": Command("\\results [QUERY]", "results since they were last shown", range(2), self._results),
            "\\lookup": Command(
                "\\lookup QUERY [INSTANT]", "the answer now, or at an instant", range(1, 3), self._lookup
            ),
            "\\bad": Command(
                "\\bad STREAM",
                "bad rows that were set aside since the last call, with reasons",
                range(1, 2),
                self._bad,
            ),
            "\\stats": Command("\\stats", "numbers of rows and slices, and bytes of state", range(1), self._stats),
            "\\quit": Command("\\quit", "end the shell", range(1), self._quit),
        }

    def handle(self, text: str) -> None:
        """Runs one input. A user's mistake is printed, and changes nothing; Ctrl-C ends it between two batches."""
        try:
            if is_command(text):
                self._command("\\" + text.strip().removeprefix("\\").rstrip(";"))
                return
            for statement in split_statements(text):
                connected = self._connected()
                with interrupts_held():
                    table = self.engine.execute(statement)
                if table is None:
                    advice = "; \\read reads its rows" if self._connected() - connected else ""
                    self.console.print(f"ok{advice}", style="dim")
                else:
                    self.console.print(result_table(table))
        except PanewiseError as error:
            self.failed = True
            self.errors.print(error_text(error))
        except KeyboardInterrupt:
            self.failed = True
            if self.engine.turns.broken:  # a second Ctrl-C interrupted a statement
                self.errors.print(error_text(self.engine.turns.refusal()))
            else:
                self.errors.print("interrupted: earlier statements and batches are complete, later ones were not begun")

    def _connected(self) -> set[str]:
        """The streams with a connector: only the command `\\read` reads their rows."""
        streams = self.engine.catalog.of_kind("stream")
        return {s.name for s in streams if isinstance(s, StreamDefinition) and written_option(s.options, "connector")}

    def _command(self, text: str) -> None:
        try:
            name, *arguments = shlex.split(text.replace("\\", "\\\\", 1))
        except ValueError as error:
            raise PanewiseError(f"the command cannot be read: {error}") from None
        name = _OTHER_NAMES.get(name.lower(), name)
        command = self.commands.get(name)
        if command is None:
            raise PanewiseError(f"there is no command {name}", hint=did_you_mean(name, self.commands))
        if len(arguments) not in command.arguments:
            raise PanewiseError(f"expected {command.usage}")
        command.run(arguments)

    def _help(self, _: list[str]) -> None:
        table = Table(show_header=False, box=None, padding=(0, 2))
        table.add_row("SELECT ...; CREATE QUERY ...;", "any statement, ended by a semicolon")
        for command in self.commands.values():
            table.add_row(command.usage.replace("[", "\\["), command.help)
        self.console.print(table)

    def _push(self, arguments: list[str]) -> None:
        name, path = arguments
        stream = self.engine.catalog.get(name, "stream")
        assert isinstance(stream, StreamDefinition)
        suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
        connector = next((_FORMATS[suffix] for suffix in suffixes if suffix in _FORMATS), None)
        if connector is None:
            raise ConnectorError(
                f"the format of '{path}' is not known", hint=f"the name should end in {', '.join(_FORMATS)}"
            )
        options: list[tuple[str, object]] = [("connector", connector), ("path", path)]
        if connector == "csv" and ".tsv" in suffixes:
            options.append(("delimiter", "\t"))
        for inherited in ("on_bad_row", "epoch"):
            value = written_option(stream.options, inherited)
            if value is not None:
                options.append((inherited, value))
        source = open_source(replace(stream, options=tuple(options)))
        assert source is not None
        flow = Flow(stream, source)
        for batch in flow.read():
            with interrupts_held():
                self.engine.push(stream.name, batch)
        self._tell_rows(stream.name, flow.rows)
        self._show_new()

    def _read(self, _: list[str]) -> None:
        summary = self.engine.driver.run(RunOptions(self.console))
        if not summary.streams and not summary.queries:
            raise ConnectorError("no stream has a connector", hint="\\push STREAM FILE reads a file into any stream")
        for name, rows in summary.streams.items():
            self._tell_rows(name, rows)
        for name, rows in summary.queries.items():
            self.console.print(f"{rows:,} results of {name} into its sinks", style="dim")
        if summary.interrupted:
            raise KeyboardInterrupt
        self._show_new()

    def _tell_rows(self, stream: str, rows: int) -> None:
        self.console.print(f"{rows:,} rows into {stream}", style="dim")
        figures = self.engine.stats()["streams"][stream]
        for remark in row_remarks([figures]):
            self.errors.print(remark)
        if figures["bad_remark"]:
            self.errors.print(f"\\bad {stream} shows them", style="yellow", markup=False, highlight=False)

    def _flush(self, _: list[str]) -> None:
        with interrupts_held():
            self.engine.flush()
        self._show_new()

    def _results(self, arguments: list[str]) -> None:
        if arguments:
            query = self.engine.catalog.get(arguments[0], "query")
            with interrupts_held():
                table = self.engine.results(query.name)
            self.console.print(result_table(table, title=query.name, rows_max=ROWS_SHOWN))
        else:
            self._show_new()

    def _show_new(self) -> None:
        for query in self.engine.catalog.of_kind("query"):
            assert isinstance(query, QueryDefinition)
            if any(isinstance(reader, SinkDefinition) for reader in self.engine.catalog.readers(query.name)):
                continue  # the results are for the sink
            with interrupts_held():
                table = self.engine.results(query.name)
            if table.num_rows:
                self.console.print(result_table(table, title=query.name, rows_max=ROWS_SHOWN))

    def _lookup(self, arguments: list[str]) -> None:
        query, *at = arguments
        with interrupts_held():
            table = self.engine.lookup(query, at=at[0] if at else None)
        self.console.print(result_table(table, title=query, rows_max=ROWS_SHOWN))

    def _bad(self, arguments: list[str]) -> None:
        self.console.print(result_table(self.engine.bad_rows(arguments[0]), title=arguments[0], rows_max=ROWS_SHOWN))

    def _stats(self, _: list[str]) -> None:
        from rich.pretty import Pretty

        self.console.print(Pretty(self.engine.stats()))

    def _quit(self, _: list[str]) -> None:
        self.ended = True


def run_shell(file: Path | None) -> int:
    """Runs the shell on this terminal or pipe; returns 1 if an input of a pipe failed."""
    with warnings.catch_warnings(), Engine() as engine:
        for said in (LateRowsWarning, BadRowsWarning):
            warnings.simplefilter("ignore", said)  # the shell prints these warnings itself
        return _run(Shell(engine, output_console(), error_console()), file)


def _run(shell: Shell, file: Path | None) -> int:
    if file is not None:
        shell.handle(read_statements(file))
    if sys.stdin.isatty():
        _converse(shell)
        return 0
    buffer = ""
    for line in sys.stdin:
        buffer += line
        if is_command(buffer) or is_complete(buffer):
            shell.handle(buffer)
            buffer = ""
        if shell.ended:
            break
    if buffer.strip() and not shell.ended:
        shell.handle(buffer)
    return int(shell.failed)


def _converse(shell: Shell) -> None:
    shell.console.print(f"panewise {__version__}. Statements end with a semicolon; \\help lists the commands.")
    session = _session(shell)
    while not shell.ended:
        try:
            text = session.prompt("panewise> ", prompt_continuation="      ... ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            break
        if text.strip():
            shell.handle(text)


def _session(shell: Shell) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.filters import is_searching
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from panewise.serve.cli.completion import CqlCompleter

    keys = KeyBindings()

    @keys.add("enter", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        completion = event.current_buffer.complete_state
        text = event.current_buffer.text
        if completion is not None and completion.current_completion is not None:
            event.current_buffer.complete_state = None  # accept the chosen completion
        elif not text.strip() or is_command(text) or is_complete(text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    history: History
    try:
        history = FileHistory(history_file())
    except OSError:
        history = InMemoryHistory()  # the home folder may be read-only
    completer = CqlCompleter(lambda: shell.engine.catalog, shell.commands)
    return PromptSession(
        history=history, completer=completer, complete_while_typing=False, key_bindings=keys, multiline=True
    )


def history_file() -> Path:
    """The path of the history file, in the user's state folder; creates the folder if it is missing."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = state / "panewise"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "history"

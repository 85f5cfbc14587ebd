// The form that adds a query: a name with a SELECT, or a whole statement. The server's error is shown below the text,
// with the place underlined; the place is also selected in the text.

import { byId, element, setAttribute } from "./dom.js";
import { ApiError, post } from "./api.js";
import { plural } from "./format.js";
import { answerTable, scrolling } from "./answer_table.js";

const EXAMPLE = "SELECT symbol, COUNT(*) AS trades\nFROM trades [RANGE 30 SECONDS SLIDE 1 SECOND]\nGROUP BY symbol";

const ROWS_MAX = 200;

export class StatementForm {
  /** `added(name)` is called with the name of the created query, or null after another statement. */
  constructor(added) {
    this.added = added;
    this.form = byId("add-form");
    this.text = byId("add-text");
    this.name = byId("add-name");
    this.message = byId("add-message");
    this.text.placeholder = EXAMPLE;
    byId("add-button").addEventListener("click", () => (this.form.hidden ? this.open() : this.close()));
    byId("add-cancel").addEventListener("click", () => this.close());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.run();
      } else if (event.key === "Escape") {
        event.stopPropagation();
        this.close();
      }
    });
  }

  open() {
    this.form.hidden = false;
    setAttribute(byId("add-button"), "aria-expanded", "true");
    this.name.focus();
  }

  close() {
    this.form.hidden = true;
    setAttribute(byId("add-button"), "aria-expanded", "false");
    byId("add-button").focus();
  }

  async run() {
    if (this.isRunning) return;
    const statement = composed(this.name.value.trim(), this.text.value);
    if (statement.refusal) return this.refuse(statement.refusal, statement.field);
    this.isRunning = true;
    setAttribute(this.form, "aria-busy", "true");
    try {
      const answer = await post("/v1/statements", { text: statement.text });
      this.accept(statement.query, answer);
    } catch (error) {
      this.refuse(error instanceof ApiError ? this.problem(error, statement) : "The server does not answer.");
    } finally {
      this.isRunning = false;
      setAttribute(this.form, "aria-busy", null);
    }
  }

  accept(query, answer) {
    this.mark(false);
    const rows = answer?.rows ?? [];
    const done = rows.length ? plural(rows.length, "row") : "Done.";
    const parts = [element("p", {}, query ? `Query ${query} runs.` : done)];
    if (!query && answer?.columns?.length) {
      parts.push(scrolling("Answer", answerTable(answer.columns, rows.slice(0, ROWS_MAX))));
    }
    this.message.replaceChildren(...parts);
    this.added(query);
  }

  refuse(problem, field = this.text) {
    this.mark(true, field);
    const parts = typeof problem === "string" ? [element("p", {}, problem)] : problem;
    this.message.replaceChildren(...parts);
    if (typeof problem === "string") (field === "name" ? this.name : this.text).focus();
  }

  mark(isBad, field) {
    setAttribute(this.message, "data-tone", isBad ? "bad" : "good");
    setAttribute(this.text, "aria-invalid", isBad && field !== "name" ? "true" : null);
    setAttribute(this.name, "aria-invalid", isBad && field === "name" ? "true" : null);
  }

  problem(error, { linesBefore }) {
    const hint = error.hint ? [element("p", {}, `Hint: ${error.hint}`)] : [];
    const line = error.at ? error.at.line - linesBefore : 0;
    const source = this.text.value.split("\n")[line - 1];
    // If there is no place, or it is in the added first line, show the server's own rendering.
    if (source === undefined) return [element("pre", {}, error.text)];
    const { column, length } = error.at;
    const width = Math.max(1, Math.min(length ?? 1, source.length - column + 1));
    this.select(line, column, width);
    const head = element("p", {}, `${error.message} (line ${line}, column ${column})`);
    const before = " ".repeat(column - 1);
    const underlined = element(
      "pre",
      { class: "underlined", tabindex: "0", "aria-label": "The place in the statement" },
      source.slice(0, column - 1),
      element("mark", {}, source.slice(column - 1, column - 1 + width) || " "),
      source.slice(column - 1 + width),
      element("span", { "aria-hidden": "true" }, `\n${before}${"^".repeat(width)}`),
    );
    return [head, underlined, ...hint];
  }

  select(line, column, width) {
    const before = this.text.value.split("\n").slice(0, line - 1);
    const start = before.reduce((sum, text) => sum + text.length + 1, 0) + column - 1;
    this.text.focus();
    this.text.setSelectionRange(start, start + width);
  }
}

/** The text to send, the name of the query that it creates (or null), and the number of lines added before it. */
export function composed(name, text) {
  if (!text.trim()) return { refusal: "Write a SELECT, or a whole statement." };
  if (!/^\s*(SELECT|ISTREAM|DSTREAM|RSTREAM|WITH)\b/i.test(text)) {
    const created = /^\s*CREATE\s+QUERY\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:"([^"]+)"|`([^`]+)`|(\w+))/i.exec(text);
    return { text, query: created ? (created[1] ?? created[2] ?? created[3]) : null, linesBefore: 0 };
  }
  if (!name) return { refusal: "Give the query a name.", field: "name" };
  const written = /^[A-Za-z_]\w*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
  return { text: `CREATE QUERY ${written} AS\n${text}`, query: name, linesBefore: 1 };
}

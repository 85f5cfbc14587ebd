// Shows whether the server answers: a dot in the bar, and a banner when that changes.

import { byId, setAttribute, setText } from "./dom.js";

const RESTORED_SHOWN_MS = 4000;

export class Connection {
  constructor() {
    this.state = "waiting";
  }

  restored(kind) {
    if (this.state === "lost") {
      this.banner("The connection is back.", "good");
      this.timer = setTimeout(() => this.banner("", null), RESTORED_SHOWN_MS);
    } else if (this.state !== "live") {
      this.banner("", null);
    }
    this.set("live", kind ? `live, ${kind}` : "live");
  }

  lost() {
    clearTimeout(this.timer);
    this.banner("The server does not answer. Trying again; what is shown is how it was.", "bad");
    this.set("lost", "no connection");
  }

  refused(message) {
    clearTimeout(this.timer);
    this.banner(`The server says: ${message}.`, "bad");
    this.set("refused", "stopped");
  }

  set(state, text) {
    this.state = state;
    setAttribute(byId("connection"), "data-state", state);
    setText(byId("connection-text"), text);
    setAttribute(document.body, "data-connection", state);
  }

  banner(text, tone) {
    setText(byId("banner"), text);
    setAttribute(byId("banner"), "data-tone", tone);
  }
}

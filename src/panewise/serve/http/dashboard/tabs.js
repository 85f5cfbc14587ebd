// Tabs after the ARIA pattern: arrow keys move the focus, and the focused tab is open.

import { element, setAttribute } from "./dom.js";

export class Tabs {
  constructor(label, tabs, opened) {
    this.opened = opened;
    this.names = tabs.map(([name]) => name);
    this.open = this.names[0];
    this.buttons = tabs.map(([name, text]) =>
      element(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${name}`,
          "aria-controls": `panel-${name}`,
          click: () => this.choose(name),
          keydown: (event) => this.key(event),
        },
        text,
      ),
    );
    this.panels = this.names.map((name) =>
      element("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}` }),
    );
    const list = element("div", { role: "tablist", "aria-label": label }, this.buttons);
    this.node = element("div", { class: "tabs" }, list, this.panels);
    this.mark();
  }

  panel(name) {
    return this.panels[this.names.indexOf(name)];
  }

  choose(name) {
    this.open = name;
    this.mark();
    this.opened(name);
  }

  mark() {
    this.names.forEach((name, index) => {
      const isOpen = name === this.open;
      setAttribute(this.buttons[index], "aria-selected", isOpen ? "true" : "false");
      setAttribute(this.buttons[index], "tabindex", isOpen ? "0" : "-1");
      this.panels[index].hidden = !isOpen;
    });
  }

  key(event) {
    const last = this.names.length - 1;
    const now = this.names.indexOf(this.open);
    const places = {
      ArrowRight: now === last ? 0 : now + 1,
      ArrowLeft: now === 0 ? last : now - 1,
      Home: 0,
      End: last,
    };
    const to = places[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.choose(this.names[to]);
    this.buttons[to].focus();
  }
}

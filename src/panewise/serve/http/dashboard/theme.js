// Light, dark, or the system's theme. The browser stores the choice.

import { byId, setText } from "./dom.js";

const KEY = "panewise.theme";
const NEXT = { automatic: "light", light: "dark", dark: "automatic" };

export function startTheme() {
  const button = byId("theme-button");
  const show = (theme) => {
    if (theme === "automatic") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    setText(button, `Theme: ${theme}`);
  };
  let theme = localStorage.getItem(KEY) ?? "automatic";
  if (!(theme in NEXT)) theme = "automatic";
  show(theme);
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    localStorage.setItem(KEY, theme);
    show(theme);
  });
}

// Asks for a token when the server wants one, and lets the user change it.

import { byId, setText } from "./dom.js";
import { onRefused, token, useToken } from "./api.js";

/** `changed()` is called with every new token. */
export function startTokenDialog(changed) {
  const dialog = byId("token-dialog");
  const open = (why) => {
    if (dialog.open) return;
    setText(byId("token-why"), why);
    byId("token").value = "";
    dialog.showModal();
  };
  let putOff = false; // after a cancel only the button opens the dialog, not a poll
  onRefused((error) => {
    if (!putOff) open(token() ? `The token was refused: ${error.message}.` : "This server asks for a token.");
  });
  byId("token-button").addEventListener("click", () => open("Sent with every request of this tab."));
  const cancel = () => {
    putOff = true;
    dialog.close("");
  };
  byId("token-cancel").addEventListener("click", cancel);
  dialog.addEventListener("cancel", () => (putOff = true));
  dialog.addEventListener("submit", () => {
    putOff = false;
    useToken(byId("token").value.trim());
    changed();
  });
  return { isOpen: () => dialog.open };
}

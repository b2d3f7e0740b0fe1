/** The list of shortcuts: a panel over the canvas that hinders nothing. */

import { texts } from "../texts.js";
import { h, iconButton } from "./dom.js";

export function makeShortcuts(root) {
  const body = h("div", { class: "shortcut-groups" });
  const panel = h(
    "section",
    { class: "shortcuts", id: "shortcuts", "aria-label": texts.shortcuts.title, hidden: true, tabindex: "-1" },
    h(
      "div",
      { class: "block-head" },
      h("h2", {}, texts.shortcuts.title),
      iconButton(
        { icon: "cross", label: texts.shortcuts.close, key: "?" },
        { class: "small", "data-align": "end", onclick: () => hide() },
      ),
    ),
    body,
  );
  root.append(panel);
  let before = null;
  const hide = () => {
    if (panel.hidden) return false;
    panel.hidden = true;
    before?.focus?.();
    return true;
  };
  const toggle = () => {
    if (hide()) return;
    before = document.activeElement;
    panel.hidden = false;
    panel.focus();
  };
  /** @param {import("../actions.js").Action[]} actions */
  const list = (actions) => {
    for (const [group, title] of Object.entries(texts.shortcuts.groups)) {
      const rows = actions.filter((action) => action.group === group && action.shown !== "");
      body.append(
        h(
          "div",
          {},
          h("h3", {}, title),
          h(
            "dl",
            {},
            rows.map((action) => [h("dt", {}, capsOf(action)), h("dd", {}, action.text)]),
          ),
        ),
      );
    }
  };
  return { toggle, hide, list };
}

/** @param {import("../actions.js").Action} action */
function capsOf(action) {
  const shown = action.shown ?? action.keys[0].toUpperCase();
  if (shown.startsWith("+")) return shown.split(" ").map((key) => h("kbd", {}, key));
  return shown
    .split("+")
    .flatMap((part) => (part.includes("–") ? [h("kbd", {}, part)] : part.split(" ").map((key) => h("kbd", {}, key))));
}
